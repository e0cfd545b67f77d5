-- The statements of versions 1 to 3 as they were released: what the present steps make must stay the same.

-- version 1
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at_s REAL NOT NULL,
    seen_at_s REAL NOT NULL,
    clock_offset_s REAL NOT NULL,
    started_at_s REAL NOT NULL,
    ended_at_s REAL,
    policy TEXT NOT NULL,
    forecaster TEXT NOT NULL,
    trace TEXT NOT NULL,
    td_s REAL,
    topology TEXT NOT NULL,
    layout TEXT NOT NULL,
    settings TEXT NOT NULL,
    outcome TEXT NOT NULL,
    dropped TEXT NOT NULL
);
CREATE INDEX runs_by_name ON runs (name, created_at_s);
CREATE TABLE measurements (
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    ended_at_s REAL NOT NULL,
    duration_s REAL NOT NULL,
    resolution_s REAL NOT NULL,
    latency_s REAL,
    amounts BLOB NOT NULL,
    cpu BLOB,
    PRIMARY KEY (run_id, seq)
);
CREATE INDEX measurements_by_time ON measurements (run_id, ended_at_s);
CREATE TABLE decisions (
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    cycle INTEGER NOT NULL,
    at_s REAL NOT NULL,
    status TEXT NOT NULL,
    changes INTEGER NOT NULL,
    document TEXT NOT NULL,
    arrays BLOB NOT NULL,
    PRIMARY KEY (run_id, seq)
);
CREATE INDEX decisions_by_time ON decisions (run_id, at_s);
CREATE TABLE forecasts (
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    series TEXT NOT NULL,
    model TEXT NOT NULL,
    made_at_s REAL NOT NULL,
    step_s REAL NOT NULL,
    document TEXT NOT NULL,
    arrays BLOB NOT NULL,
    PRIMARY KEY (run_id, seq, series)
);
CREATE INDEX forecasts_by_time ON forecasts (run_id, made_at_s);
CREATE TABLE events (
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    at_s REAL NOT NULL,
    kind TEXT NOT NULL,
    severity TEXT NOT NULL,
    message TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
);
CREATE INDEX events_by_time ON events (run_id, at_s);

-- version 2
CREATE TABLE feature_sets (
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    names TEXT NOT NULL,
    PRIMARY KEY (run_id, id)
);
CREATE TABLE features (
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    at_s REAL NOT NULL,
    resolution_s REAL NOT NULL,
    level TEXT NOT NULL,
    owner TEXT NOT NULL,
    machine TEXT NOT NULL,
    set_id TEXT NOT NULL,
    amounts BLOB NOT NULL,
    PRIMARY KEY (run_id, seq)
);
CREATE INDEX features_by_time ON features (run_id, at_s);

-- version 3
CREATE TABLE latencies (
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    at_s REAL NOT NULL,
    duration_s REAL NOT NULL,
    resolution_s REAL NOT NULL,
    events INTEGER NOT NULL,
    sum_s REAL NOT NULL,
    bins BLOB NOT NULL,
    PRIMARY KEY (run_id, seq)
);
CREATE INDEX latencies_by_time ON latencies (run_id, at_s);

-- version 4
CREATE TABLE knowledge (
    topology TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    kind TEXT NOT NULL,
    version INTEGER NOT NULL,
    saved_at_s REAL NOT NULL,
    document TEXT NOT NULL,
    PRIMARY KEY (topology, fingerprint, kind)
);
