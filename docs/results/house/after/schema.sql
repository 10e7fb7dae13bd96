-- user_version 0, journal_mode wal

-- index deliveries_by_body_blob
CREATE INDEX deliveries_by_body_blob ON deliveries (body_blob) WHERE body_blob IS NOT NULL;

-- index deliveries_by_record
CREATE INDEX deliveries_by_record ON deliveries (kind, record_id, created_at);

-- index deliveries_by_state
CREATE INDEX deliveries_by_state ON deliveries (state, next_attempt_at);

-- index records_by_input_blob
CREATE INDEX records_by_input_blob ON records (input_blob) WHERE input_blob IS NOT NULL;

-- index records_by_logs_blob
CREATE INDEX records_by_logs_blob ON records (logs_blob) WHERE logs_blob IS NOT NULL;

-- index records_by_output_blob
CREATE INDEX records_by_output_blob ON records (output_blob) WHERE output_blob IS NOT NULL;

-- index records_by_payload_blob
CREATE INDEX records_by_payload_blob ON records (payload_blob) WHERE payload_blob IS NOT NULL;

-- index records_by_status
CREATE INDEX records_by_status ON records (kind, status, created_at, id);

-- index records_by_time
CREATE INDEX records_by_time ON records (kind, created_at, id);

-- table alembic_version
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

-- table deliveries
CREATE TABLE deliveries (
	id VARCHAR(36) NOT NULL, 
	record_id TEXT NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	event VARCHAR(16) NOT NULL, 
	url TEXT NOT NULL, 
	body TEXT, 
	body_blob VARCHAR(64), 
	headers TEXT NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	attempts INTEGER NOT NULL, 
	next_attempt_at VARCHAR(32), 
	last_status INTEGER, 
	last_error TEXT, 
	created_at VARCHAR(32) NOT NULL, 
	delivered_at VARCHAR(32), 
	server VARCHAR(36), 
	PRIMARY KEY (id)
);

-- table records
CREATE TABLE records (
	kind VARCHAR(16) NOT NULL, 
	id TEXT NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	created_at VARCHAR(32) NOT NULL, 
	started_at VARCHAR(32), 
	completed_at VARCHAR(32), 
	input TEXT, 
	input_blob VARCHAR(64), 
	payload TEXT, 
	payload_blob VARCHAR(64), 
	input_digest VARCHAR(64), 
	output TEXT, 
	output_blob VARCHAR(64), 
	logs TEXT, 
	logs_blob VARCHAR(64), 
	metrics TEXT NOT NULL, 
	error TEXT, 
	webhook TEXT, 
	webhook_events TEXT, 
	server VARCHAR(36), 
	attempts INTEGER NOT NULL, 
	retries_left INTEGER NOT NULL, 
	deadline VARCHAR(32), 
	version TEXT, 
	PRIMARY KEY (kind, id)
);

-- table servers
CREATE TABLE servers (
	id VARCHAR(36) NOT NULL, 
	host TEXT NOT NULL, 
	pid INTEGER NOT NULL, 
	started TEXT NOT NULL, 
	lease_until VARCHAR(32) NOT NULL, 
	PRIMARY KEY (id)
);
