CREATE TABLE netperf_version (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT netperf_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE netperf_run (
  run_id VARCHAR(128) NOT NULL,
  fingerprint VARCHAR(64) NOT NULL,
  started_at VARCHAR(40) NOT NULL,
  station TEXT,
  host TEXT,
  operator TEXT,
  finished_at VARCHAR(40),
  exit_status INTEGER,
  PRIMARY KEY (run_id)
);
CREATE TABLE netperf_device (
  run_id VARCHAR(128) NOT NULL,
  serial TEXT NOT NULL,
  model TEXT,
  batch TEXT,
  started_at VARCHAR(40) NOT NULL,
  verdict VARCHAR(40),
  sheet_digest VARCHAR(64),
  PRIMARY KEY (run_id, serial),
  FOREIGN KEY(run_id) REFERENCES netperf_run (run_id) ON DELETE CASCADE
);
CREATE INDEX netperf_device_serial ON netperf_device (serial, started_at);
CREATE INDEX netperf_device_model ON netperf_device (model, started_at);
CREATE INDEX netperf_device_batch ON netperf_device (batch);
CREATE TABLE netperf_event (
  run_id VARCHAR(128) NOT NULL,
  n INTEGER NOT NULL,
  kind VARCHAR(20) NOT NULL,
  sha256 VARCHAR(64) NOT NULL,
  version INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (run_id, n),
  FOREIGN KEY(run_id) REFERENCES netperf_run (run_id) ON DELETE CASCADE
);
CREATE TABLE netperf_row (
  run_id VARCHAR(128) NOT NULL,
  n INTEGER NOT NULL,
  row_id TEXT NOT NULL,
  serial TEXT NOT NULL,
  model TEXT,
  batch TEXT,
  test TEXT NOT NULL,
  link TEXT,
  quantity TEXT NOT NULL,
  statistic TEXT,
  unit VARCHAR(32) NOT NULL,
  value FLOAT,
  uncertainty FLOAT,
  limit_text TEXT,
  limit_low FLOAT,
  limit_high FLOAT,
  ceiling FLOAT,
  margin FLOAT,
  verdict VARCHAR(20) NOT NULL,
  reason TEXT NOT NULL,
  required BOOLEAN NOT NULL,
  simulated BOOLEAN NOT NULL,
  attempt INTEGER NOT NULL,
  started_at VARCHAR(40),
  duration_s FLOAT,
  conditions TEXT NOT NULL,
  PRIMARY KEY (run_id, n),
  FOREIGN KEY(run_id) REFERENCES netperf_run (run_id) ON DELETE CASCADE
);
CREATE INDEX netperf_row_serial ON netperf_row (serial);
CREATE INDEX netperf_row_row_id ON netperf_row (row_id)
