from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from foretide.errors import TopologyError, TopologyErrors
from foretide.topology import GroupingSpec, ReplicaBounds, Topology, flow
from foretide.topology.dumper import dump_topology, dump_yaml
from foretide.topology.loader import load_topology

EXAMPLES = Path(__file__).parents[3] / "examples"

FULL_TOML = """\
name = "full"

[[sources]]
id = "tweets"
kind = "trace"
options = { trace = "pasps_dns" }

[[operators]]
id = "split"
function = "my_module:split"
mode = "pandas"
outputs = ["news", "opinion"]
schema = "text string"
selectivity = { news = 0.7, opinion = 0.3 }
execution_ms = 2.5
replicas = { min = 1, max = 8, initial = 2 }
inputs = ["tweets"]

[[operators]]
id = "count"
selectivity = 0.5
execution_s = 0.1
replicas = 4
stateful = true
inputs = [
    { from = "split", output = "opinion", grouping = "fields:word", queued = true, queue_bound = 99, timeout_s = 2.5 },
    { from = "split.news", grouping = { name = "fields", fields = ["word"], options = { seed = 3 } } },
]

[operators.options]
tables = { words = "words.csv" }

[[sinks]]
id = "store"
kind = "parquet"
options = { path = "out" }
inputs = [
    "count",
    "split.news",
]
"""

FULL_YAML = """\
name: full
sources:
  - id: tweets
    kind: trace
    options: {trace: pasps_dns}
operators:
  - id: split
    function: my_module:split
    mode: pandas
    outputs: [news, opinion]
    schema: text string
    selectivity: {news: 0.7, opinion: 0.3}
    execution_ms: 2.5
    replicas: {min: 1, max: 8, initial: 2}
    inputs: [tweets]
  - id: count
    selectivity: 0.5
    execution_s: 0.1
    replicas: 4
    stateful: true
    options: {tables: {words: words.csv}}
    inputs:
      - {from: split, output: opinion, grouping: "fields:word", queued: true, queue_bound: 99, timeout_s: 2.5}
      - {from: split.news, grouping: {name: fields, fields: [word], options: {seed: 3}}}
sinks:
  - id: store
    kind: parquet
    options: {path: out}
    inputs: [count, split.news]
"""


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(dedent(text), encoding="utf-8")
    return file


def errors_of(file: Path) -> list[str]:
    with pytest.raises(TopologyError) as caught:
        load_topology(file)
    found = caught.value.errors if isinstance(caught.value, TopologyErrors) else (caught.value,)
    return [str(error) for error in found]


@pytest.fixture
def full(tmp_path: Path) -> Topology:
    return load_topology(write(tmp_path, "full.toml", FULL_TOML))


def test_toml_declares_every_property(full: Topology) -> None:
    split, count = full.operators
    assert (full.sources[0].connector.kind, full.sources[0].connector.options) == ("trace", {"trace": "pasps_dns"})
    assert (split.function, split.mode, split.outputs) == ("my_module:split", "pandas", ("news", "opinion"))
    assert split.schema == {"news": "text string", "opinion": "text string"}
    assert split.selectivity == {"news": 0.7, "opinion": 0.3}
    assert split.execution_s == 0.0025
    assert split.replicas == ReplicaBounds(1, 8, 2)
    assert (count.selectivity, count.execution_s, count.stateful) == ({"out": 0.5}, 0.1, True)
    assert count.replicas == ReplicaBounds(4, 4, 4)
    assert count.options == {"tables": {"words": "words.csv"}}


def test_toml_declares_edges_in_short_and_long_form(full: Topology) -> None:
    into_count = full.incoming["count"]
    assert [(edge.output, edge.transport) for edge in into_count] == [("opinion", "queued"), ("news", "inline")]
    assert into_count[0].grouping == GroupingSpec("fields", ("word",))
    assert into_count[1].grouping == GroupingSpec("fields", ("word",), {"seed": 3})
    assert [str(edge) for edge in full.incoming["store"]] == ["count -> store", "split[news] -> store"]


def test_yaml_and_toml_give_the_same_topology(full: Topology, tmp_path: Path) -> None:
    assert load_topology(write(tmp_path, "full.yaml", FULL_YAML)) == full


def test_every_element_knows_its_line(full: Topology, tmp_path: Path) -> None:
    assert [str(operator.declared) for operator in full.operators] == ["full.toml:9", "full.toml:20"]
    assert str(full.sources[0].declared) == "full.toml:4"
    assert str(full.sinks[0].declared) == "full.toml:34"
    assert [str(edge.declared) for edge in full.incoming["count"]] == ["full.toml:26", "full.toml:27"]
    assert [str(edge.declared) for edge in full.incoming["store"]] == ["full.toml:38", "full.toml:39"]
    assert str(full.declared) == "full.toml:1"
    from_yaml = load_topology(write(tmp_path, "full.yml", FULL_YAML))
    assert [str(operator.declared) for operator in from_yaml.operators] == ["full.yml:7", "full.yml:16"]
    assert [str(edge.declared) for edge in from_yaml.incoming["count"]] == ["full.yml:23", "full.yml:24"]


def test_lines_of_toml_survive_inline_tables_and_text_that_looks_like_keys(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "inline.toml",
        '''\
        sources = [{ id = "in" }]
        operators = [
            { id = "a", inputs = ["in"] },
            { id = "b", function = """
        id = "in"
        """, inputs = ["a"] },
        ]
        ''',
    )
    topology = load_topology(file)
    assert topology.name == "inline"
    assert [str(operator.declared) for operator in topology.operators] == ["inline.toml:3", "inline.toml:4"]


def test_an_element_whose_id_holds_a_dot_wins_over_an_output(tmp_path: Path) -> None:
    text = """\
        sources: [{id: in}]
        operators:
          - {id: split, outputs: [a, b], inputs: [in]}
          - {id: split.a, inputs: [split.b]}
          - {id: last, inputs: [split.a]}
        """
    topology = load_topology(write(tmp_path, "dots.yaml", text))
    assert [str(edge) for edge in topology.edges] == ["in -> split", "split[b] -> split.a", "split.a -> last"]


@pytest.mark.parametrize(
    ("replicas", "bounds"),
    [
        ("4", ReplicaBounds(4, 4, 4)),
        ("[2, 6]", ReplicaBounds(2, 6, 2)),
        ("[2, 6, 3]", ReplicaBounds(2, 6, 3)),
        ("{min: 2}", ReplicaBounds(2, 32, 2)),
        ("{min: 64}", ReplicaBounds(64, 64, 64)),
        ("{max: 9, initial: 5}", ReplicaBounds(1, 9, 5)),
    ],
)
def test_replica_bounds_have_three_forms(tmp_path: Path, replicas: str, bounds: ReplicaBounds) -> None:
    text = f"sources: [{{id: in}}]\noperators: [{{id: a, inputs: [in], replicas: {replicas}}}]"
    assert load_topology(write(tmp_path, "a.yaml", text)).operators[0].replicas == bounds


def test_a_file_with_many_errors_names_each_with_its_line(tmp_path: Path) -> None:
    text = """\
        name = "wrong"
        sorces = []

        [[sources]]
        id = "in"

        [[operators]]
        id = "a"
        replica = 3
        stateful = "yes"
        execution_ms = true
        mode = "row"
        inputs = ["in", { form = "in" }]

        [[operators]]
        replicas = 2.5
        outputs = "news"
        """
    assert errors_of(write(tmp_path, "wrong.toml", text)) == [
        "topology (declared at wrong.toml:2): expected a key among ['name', 'sources', 'operators', 'sinks'], "
        "got the unknown key 'sorces'; did you mean 'sources'?",
        "operator 'a' (declared at wrong.toml:9): expected a key among ['id', 'function', 'mode', 'outputs', 'schema', "
        "'selectivity', 'execution_ms', 'execution_s', 'replicas', 'stateful', 'key', 'state', 'options', 'inputs'], "
        "got the unknown key 'replica'; did you mean 'replicas'?",
        "operator 'a' (declared at wrong.toml:10): expected true or false for 'stateful', got 'yes'",
        "operator 'a' (declared at wrong.toml:11): expected a number for 'execution_ms', got true",
        "operator 'a' (declared at wrong.toml:12): expected a mode among ['rows', 'pandas', 'arrow', 'dataframe'], "
        "got 'row'",
        "operator 'a' (declared at wrong.toml:13): expected a key among ['from', 'output', 'grouping', 'queued', "
        "'queue_bound', 'timeout_s'], "
        "got the unknown key 'form'; did you mean 'from'?",
        "operator 'a' (declared at wrong.toml:13): expected the element that it comes 'from', got none; "
        'write from = "..."',
        "operator number 2 (declared at wrong.toml:15): expected an id, got none; "
        'write id = "..." (TOML) or id: ... (YAML)',
        "operator number 2 (declared at wrong.toml:16): expected whole numbers for 'replicas', got 2.5; "
        "write 4, [1, 8], or a table of min, max, initial",
        "operator number 2 (declared at wrong.toml:17): expected a list of texts for 'outputs', got 'news'",
    ]


MISSPELT_TOML = """\
[[sources]]
id = "in"
kind = "trace"
[sources.options]
trace = "pasps_dns"
sped = 20

[[operators]]
id = "a"
inputs = ["in"]
options = { tabels = { words = "words.csv" } }

[[sinks]]
id = "out"
kind = "sqlite"
inputs = ["a"]
[sinks.options]
path = "out.db"
tabel = "t"
"""
MISSPELT_YAML = """\
sources:
  - id: in
    kind: trace
    options:
      trace: pasps_dns
      sped: 20
operators:
  - id: a
    inputs: [in]
    options:
      tabels: {words: words.csv}
sinks:
  - id: out
    kind: sqlite
    inputs: [a]
    options: {path: out.db, tabel: t}
"""


@pytest.mark.parametrize(
    ("name", "text", "lines"), [("m.toml", MISSPELT_TOML, (6, 11, 19)), ("m.yaml", MISSPELT_YAML, (6, 11, 16))]
)
def test_a_misspelt_option_is_named_with_its_line_and_the_nearest_name(
    tmp_path: Path, name: str, text: str, lines: tuple[int, int, int]
) -> None:
    source, operator, sink = errors_of(write(tmp_path, name, text))
    assert source.startswith(f"source 'in' (declared at {name}:{lines[0]}): expected an option among trace, payload,")
    assert source.endswith("got the unknown option 'sped'; did you mean 'speed'?")
    assert operator == (
        f"operator 'a' (declared at {name}:{lines[1]}): expected an option among tables, state_partitions, "
        "timer, watermark_s, event_time, ttl_s, "
        "got the unknown option 'tabels'; did you mean 'tables'?"
    )
    assert sink == (
        f"sink 'out' (declared at {name}:{lines[2]}): expected an option among path, table, "
        "got the unknown option 'tabel'; did you mean 'table'?"
    )


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("id: no", "expected a text for 'id', got false; put quotes around it"),
        ("id: ''", "expected a text for 'id', got an empty one"),
        ("id: a, inputs: in", "expected a list, written [[inputs]] in TOML for 'inputs', got 'in'"),
        (
            "id: a, inputs: [3]",
            "expected a table with keys among ['from', 'output', 'grouping', 'queued', "
            "'queue_bound', 'timeout_s'], got 3",
        ),
        ("id: a, options: {1: x}", "expected texts as keys of 'options', got {1: 'x'}; put quotes around them"),
        ("id: a, outputs: [1]", "expected a list of texts for 'outputs', got [1]; put quotes around each"),
        ("id: a, selectivity: {out: x}", "expected a number for 'selectivity', or a table of them by output, got 'x'"),
        ("id: a, selectivity: {1: 0.5}", "expected names of outputs as keys of 'selectivity', got 1"),
        ("id: a, schema: 3", "expected a text for 'schema', or a table of them by output, got 3"),
        ("id: a, execution_ms: 1, execution_s: 1", "expected execution_s or execution_ms, got both"),
        ("id: a, replicas: true", "expected whole numbers for 'replicas', got True"),
        ("id: a, replicas: {min: 1, maximum: 2}", "got the unknown key 'maximum'; did you mean 'max'?"),
        ("id: a, inputs: [{from: in, grouping: {nam: fields}}]", "the unknown key 'nam'; did you mean 'name'?"),
    ],
)
def test_a_wrong_value_names_element_line_and_remedy(tmp_path: Path, entry: str, message: str) -> None:
    found = errors_of(write(tmp_path, "a.yaml", f"sources: [{{id: in}}]\noperators:\n  - {{{entry}}}"))
    assert message in found[0]
    assert "(declared at a.yaml:3)" in found[0]
    assert found[0].startswith("operator ")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.toml", "", "topology file 'a.toml': expected a topology, got an empty file; start with name"),
        ("a.yaml", "# nothing", "topology file 'a.yaml': expected a topology, got an empty file"),
        ("a.yaml", "- a\n- b", "(declared at a.yaml:1): expected a mapping with the keys of a topology, got a list"),
        ("a.toml", "name = 'a'\nid = = 3", "(declared at a.toml:2): expected valid TOML, got 'Invalid value'"),
        ("a.toml", "name = 'a'\nx = [1,\n", "(declared at a.toml:2): expected valid TOML, got"),
        ("a.yaml", "name: a\nsources: [", "(declared at a.yaml:2): expected valid YAML, got"),
        ("a.yaml", "name: a\nname: b", "(declared at a.yaml:2): expected every key once, got 'name' twice"),
        ("a.yaml", "name: !!python/object:os.system x", "(declared at a.yaml:1): expected valid YAML, got"),
        ("a.json", "{}", "expected a name ending in .toml, .yaml, .yml or .py, got '.json'; rename it"),
        ("a.toml", "name = 'a'", "topology 'a': expected at least one source, got none; declare a source"),
    ],
)
def test_a_file_that_is_wrong_as_a_whole_says_why(tmp_path: Path, name: str, text: str, message: str) -> None:
    assert message in errors_of(write(tmp_path, name, text))[0]


def test_a_missing_file_and_a_binary_file_are_named(tmp_path: Path) -> None:
    missing = errors_of(tmp_path / "none.toml")[0]
    assert missing.startswith("topology file 'none.toml': expected a file that can be read, got ")
    assert missing.endswith("no such file or directory; check the path")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    assert "expected text in UTF-8" in errors_of(binary)[0]


def test_wrong_edges_are_found_by_validation_at_their_line(tmp_path: Path) -> None:
    text = """\
        sources: [{id: in}]
        operators:
          - {id: split, outputs: [news], inputs: [in]}
          - {id: last, inputs: [spilt.news, split.new]}
        """
    first, second = errors_of(write(tmp_path, "a.yaml", text))
    assert "(declared at a.yaml:4)" in first
    assert "the unknown name 'spilt'; did you mean 'split'?" in first
    assert "an output of 'split' among ['news'], got 'new'" in second


@pytest.mark.parametrize("name", ["twitter_complex.toml", "fig6.yaml"])
def test_a_dump_loads_as_an_equal_topology(tmp_path: Path, name: str) -> None:
    topology = load_topology(EXAMPLES / name)
    assert load_topology(write(tmp_path, "dump.yaml", dump_yaml(topology))) == topology


def test_a_dump_of_every_property_loads_as_an_equal_topology(full: Topology, tmp_path: Path) -> None:
    again = load_topology(write(tmp_path, "dump.yaml", dump_yaml(full)))
    assert again == full
    assert again.operators[0].function == "my_module:split"


def test_a_file_in_any_order_dumps_in_the_order_of_the_flow(tmp_path: Path) -> None:
    text = """\
        sources: [{id: in}]
        operators:
          - {id: last, inputs: [b, a]}
          - {id: b, inputs: [a]}
          - {id: a, inputs: [in]}
        """
    topology = load_topology(write(tmp_path, "order.yaml", text))
    assert [entry["id"] for entry in dump_topology(topology)["operators"]] == ["a", "b", "last"]
    assert load_topology(write(tmp_path, "order2.yaml", "name: order\n" + dump_yaml(topology)[12:])) == topology


def test_a_dump_names_functions_that_can_be_imported_and_leaves_out_others() -> None:
    job = flow("functions")
    job.source("in").operator("a", dedent).operator("b", lambda row: row)
    operators = dump_topology(job.build())["operators"]
    assert [entry.get("function") for entry in operators] == ["textwrap:dedent", None]


def test_a_dump_has_no_passwords_in_it() -> None:
    job = flow("words")
    job.source("in").operator("count").sink("out", "postgres", url="postgresql://ann:secret@host/shop", table="t")
    [sink] = dump_topology(job.build())["sinks"]
    assert sink["options"] == {"url": "postgresql://ann@host/shop", "table": "t"}


def test_a_dump_refuses_options_that_no_file_can_hold() -> None:
    job = flow("options")
    job.source("in", "python", reader=object()).operator("a")
    with pytest.raises(TopologyError, match=r"options of 'in': expected texts, numbers, lists and tables"):
        dump_topology(job.build())


@pytest.mark.parametrize(
    "ending",
    [
        "topology = job.build()",
        "topology = job",
        "def topology():\n    return job",
        "def build():\n    return job.build()",
    ],
)
def test_a_python_file_gives_its_topology(tmp_path: Path, ending: str) -> None:
    (tmp_path / "beside.py").write_text("NAME = 'count'")
    text = "from beside import NAME\nfrom foretide.topology import flow\njob = flow('py')\n"
    text += f"job.source('in').operator(NAME)\n{ending}\n"
    topology = load_topology(write(tmp_path, "job.py", text))
    assert topology.operators[0].id == "count"
    assert str(topology.operators[0].declared) == "job.py:4"


def test_a_python_file_may_have_several_topologies(tmp_path: Path) -> None:
    text = """\
    from foretide.topology import flow
    daily = flow("daily")
    daily.source("in").operator("a")
    def hourly():
        job = flow("hourly")
        job.source("in").operator("a")
        return job.build()
    other = 3
    """
    file = write(tmp_path, "jobs.py", text)
    assert [load_topology(f"{file}:{name}").name for name in ("daily", "hourly")] == ["daily", "hourly"]
    expected = "topology file 'jobs.py': expected a variable `{0}`, or a function `{0}()`, of a topology, got "
    assert errors_of(Path(f"{file}:houry")) == [expected.format("houry") + "none; did you mean 'hourly'?"]
    assert errors_of(Path(f"{file}:other")) == [
        expected.format("other") + "'other' of type int; correct what follows the colon"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "x = 1",
            "topology file 'job.py': expected a variable `topology`, or a function `topology()` or `build()`, got",
        ),
        ("topology = 3", "got 'topology' of type int; end the file with topology = job.build()"),
        (
            "def build(",
            "topology file (declared at job.py:1): expected Python that runs, got SyntaxError: '(' was never",
        ),
        ("a = 1\nb = a / 0", "topology file (declared at job.py:2): expected Python that runs, got ZeroDivisionError"),
    ],
)
def test_a_python_file_without_topology_says_why(tmp_path: Path, text: str, message: str) -> None:
    assert message in errors_of(write(tmp_path, "job.py", text))[0]


def test_errors_in_a_python_topology_keep_their_own_message(tmp_path: Path) -> None:
    text = "from foretide.topology import flow\njob = flow('py')\njob.source('in')\ntopology = job\n"
    assert errors_of(write(tmp_path, "job.py", text)) == [
        "source 'in' (declared at job.py:3): expected an operator or sink that reads it, got none; "
        "connect it, or remove it"
    ]


def test_p9_twitter_complex_has_eight_operators_in_two_branches_that_meet() -> None:
    topology = load_topology(EXAMPLES / "twitter_complex.toml")
    assert len(topology.operators) == 8
    assert [edge.end for edge in topology.outgoing["split"]] == ["topic", "sentiment"]
    assert [edge.start for edge in topology.incoming["merge"]] == ["category", "author"]
    # r_over of section 4.5 is 40: five replicas for each of the eight.
    assert topology.maximum_replicas.sum() == 40


def test_p5_figure_6_shares_give_100_70_30_58() -> None:
    topology = load_topology(EXAMPLES / "fig6.yaml")
    expected = topology.flow.propagate([100.0], [0.0] * 4, topology.declared_share)
    assert expected.tolist() == pytest.approx([100.0, 70.0, 30.0, 58.0])
