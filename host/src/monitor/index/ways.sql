-- The ways by which queries find rows. Made after the first reading of the log, which is faster than keeping them up meanwhile.
CREATE INDEX IF NOT EXISTS events_by_role ON events (role, seq);
CREATE INDEX IF NOT EXISTS events_by_type ON events (type, seq);
CREATE INDEX IF NOT EXISTS events_by_session ON events (session, seq);
CREATE INDEX IF NOT EXISTS events_guessed ON events (seq) WHERE how > 0;
CREATE INDEX IF NOT EXISTS sessions_by_activity ON sessions (activity, id);
CREATE INDEX IF NOT EXISTS sessions_by_category ON sessions (category, activity, id);
CREATE INDEX IF NOT EXISTS sessions_of_main ON sessions (activity, id) WHERE main > 0;
CREATE INDEX IF NOT EXISTS sessions_of_delegation ON sessions (activity, id) WHERE delegation > 0;
CREATE INDEX IF NOT EXISTS sessions_of_orchestration ON sessions (activity, id) WHERE orchestration > 0;
CREATE INDEX IF NOT EXISTS sessions_of_system ON sessions (activity, id) WHERE system > 0;
CREATE INDEX IF NOT EXISTS sessions_blocked ON sessions (activity, id) WHERE blocked > 0;
CREATE INDEX IF NOT EXISTS sessions_by_classifier ON sessions (classifier, activity, id);
CREATE INDEX IF NOT EXISTS sessions_due ON sessions (due) WHERE due IS NOT NULL;
