import numpy as np

from foretide.grouping import Fields

KEYS = np.arange(30_000)


def test_keys_spread_evenly() -> None:
    counts = np.bincount(Fields(6).assign(KEYS).replicas, minlength=6)
    # Binomial with mean 5000 and standard deviation 65: five of them is beyond chance.
    assert abs(counts - 5000).max() < 5 * 65


def test_a_new_replica_takes_its_share_and_nothing_else_moves() -> None:
    before, after = Fields(5).assign(KEYS).replicas, Fields(5).rescale(6).assign(KEYS).replicas
    moved = before != after
    assert set(after[moved].tolist()) == {5}
    assert abs(moved.mean() - 1 / 6) < 0.01


def test_replicas_are_the_same_on_every_machine() -> None:
    assert Fields(10).assign(np.arange(12)).replicas.tolist() == [0, 9, 7, 9, 5, 8, 4, 8, 9, 1, 5, 4]


def test_jump_hashing_agrees_with_its_definition() -> None:
    # The published recurrence in Python's own integers, after the same mixing of the key.
    def mixed(word: int) -> int:
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) % 2**64
        return word ^ (word >> 31)

    def expected(key: int, replicas: int) -> int:
        word, bucket, following = mixed(key % 2**64), -1, 0
        while following < replicas:
            bucket = following
            word = (word * 2862933555777941757 + 1) % 2**64
            following = int((bucket + 1) * (2**31 / ((word >> 33) + 1)))
        return bucket

    keys = [0, 1, -1, 2**63 - 1, -(2**63), 123456789]
    for replicas in (1, 2, 17, 1000):
        got = Fields(replicas).assign(np.array(keys)).replicas.tolist()
        assert got == [expected(key, replicas) for key in keys]
