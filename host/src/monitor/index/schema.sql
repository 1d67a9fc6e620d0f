-- The index of the event log. Everything here follows from the log and can be made again from it.
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
-- How far each segment was read, how it begins, and what lies right before `read_to`, so that another file under its name is noticed.
CREATE TABLE segments (
    number INTEGER PRIMARY KEY, head_len INTEGER NOT NULL, head BLOB NOT NULL, read_to INTEGER NOT NULL, tail BLOB NOT NULL
);
-- Event types, and the tasks, jobs and slots that events name.
CREATE TABLE words (id INTEGER PRIMARY KEY, word TEXT NOT NULL UNIQUE);
-- `seq` is the place in the log: segment number x 2^32 + offset. `how`: 0 the writer gave the role, 1 the classifier, 2 nobody knew.
CREATE TABLE events (
    seq INTEGER PRIMARY KEY, len INTEGER NOT NULL, ts INTEGER NOT NULL, type INTEGER NOT NULL,
    role INTEGER NOT NULL, how INTEGER NOT NULL, session INTEGER
);
-- Up to `seq` nothing happened later than `latest`: a row for about every minute, so that a time leads to a place.
CREATE TABLE times (latest INTEGER PRIMARY KEY, seq INTEGER NOT NULL);
CREATE TABLE ids (id BLOB PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE subjects (word INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (word, seq)) WITHOUT ROWID;
-- The work session that a task belongs to.
CREATE TABLE tasks (task TEXT PRIMARY KEY, session INTEGER NOT NULL) WITHOUT ROWID;
-- `fold` is what its events add up to; `category` and `source` are what is shown, `shown` all of it, `classified` what the classifier said
-- when the session had `seen` messages; `due` is when it is to be asked again. Long columns come last: what stands behind them is read through them.
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, activity INTEGER NOT NULL, terminal INTEGER NOT NULL, open_until INTEGER NOT NULL,
    main INTEGER NOT NULL, delegation INTEGER NOT NULL, orchestration INTEGER NOT NULL, system INTEGER NOT NULL,
    blocked INTEGER NOT NULL, category TEXT, source TEXT NOT NULL, classifier INTEGER NOT NULL, seen INTEGER NOT NULL, due INTEGER,
    shown TEXT NOT NULL, classified TEXT, fold TEXT NOT NULL
);
CREATE TABLE threads (
    session INTEGER NOT NULL, key TEXT NOT NULL, last_seq INTEGER NOT NULL, fold TEXT NOT NULL, PRIMARY KEY (session, key)
) WITHOUT ROWID;
-- Days are counted from 1970 in UTC.
CREATE TABLE daily_categories (
    day INTEGER NOT NULL, category TEXT NOT NULL, source TEXT NOT NULL, sessions INTEGER NOT NULL, PRIMARY KEY (day, category, source)
) WITHOUT ROWID;
CREATE TABLE daily_roles (
    day INTEGER NOT NULL, role INTEGER NOT NULL, how INTEGER NOT NULL, events INTEGER NOT NULL, PRIMARY KEY (day, role, how)
) WITHOUT ROWID;
-- Words of messages, found by their beginnings. Only which event has which word: the text itself is in the log, and is gone by the time
-- its words are removed.
CREATE VIRTUAL TABLE texts USING fts5 (text, content = '', contentless_delete = 1, detail = none, tokenize = 'unicode61 remove_diacritics 0');
