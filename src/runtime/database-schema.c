#include "runtime/database-schema.h"

#include <stddef.h>

/* Sandboxes of this machine, whoever made them: runtime/store.c. */
static const char sandboxes[] =
    "CREATE TABLE sandbox ("
    "  id TEXT PRIMARY KEY, name TEXT UNIQUE, runtime TEXT NOT NULL, spec TEXT NOT NULL,"
    "  key TEXT NOT NULL, address TEXT, ref TEXT, pool TEXT, parent TEXT, reason TEXT,"
    "  isolation TEXT, boot TEXT, status INTEGER NOT NULL, owner_pid INTEGER NOT NULL,"
    "  owner_start INTEGER NOT NULL, created REAL NOT NULL, used REAL NOT NULL,"
    "  lease REAL NOT NULL) WITHOUT ROWID;"
    "CREATE INDEX sandbox_pool ON sandbox (runtime, pool, created) WHERE pool IS NOT NULL;"
    "CREATE INDEX sandbox_bound ON sandbox (id) WHERE owner_pid > 0 OR lease > 0;"
    "CREATE TABLE snapshot ("
    "  sandbox TEXT NOT NULL, name TEXT NOT NULL, created REAL NOT NULL,"
    "  PRIMARY KEY (sandbox, name)) WITHOUT ROWID;";

/* What the service adds: src/service. */
static const char service[] =
    /* key.c: who may ask */
    "CREATE TABLE api_key ("
    "  id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, digest TEXT NOT NULL,"
    "  scopes INTEGER NOT NULL, max_sandboxes INTEGER NOT NULL, max_running INTEGER NOT NULL,"
    "  max_memory INTEGER NOT NULL, max_cpus REAL NOT NULL, max_seconds REAL NOT NULL,"
    "  requests_per_second REAL NOT NULL, created REAL NOT NULL, used REAL NOT NULL,"
    "  expires REAL NOT NULL, revoked INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
    /* box.c: sandboxes of the service, under the id of their sandbox row */
    "CREATE TABLE box ("
    "  id TEXT PRIMARY KEY, tenant TEXT NOT NULL, key_id TEXT NOT NULL, session TEXT, name TEXT,"
    "  template TEXT, runtime TEXT, spec TEXT NOT NULL, metadata TEXT, state INTEGER NOT NULL,"
    "  goal INTEGER NOT NULL, cause INTEGER NOT NULL, reason TEXT, created REAL NOT NULL,"
    "  started REAL NOT NULL, expires REAL NOT NULL, idle_pause REAL NOT NULL,"
    "  idle_stop REAL NOT NULL, resource_factor REAL NOT NULL, restarts INTEGER NOT NULL,"
    "  version INTEGER NOT NULL, UNIQUE (tenant, session)) WITHOUT ROWID;"
    "CREATE TABLE idempotency ("
    "  tenant TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL, box TEXT NOT NULL,"
    "  created REAL NOT NULL, PRIMARY KEY (tenant, key)) WITHOUT ROWID;"
    /* pools.c */
    "CREATE TABLE pool ("
    "  name TEXT PRIMARY KEY, template TEXT, spec TEXT NOT NULL, target INTEGER NOT NULL,"
    "  minimum INTEGER NOT NULL, burst INTEGER NOT NULL) WITHOUT ROWID;"
    /* api-openhands-build.c */
    "CREATE TABLE build ("
    "  id TEXT PRIMARY KEY, tenant TEXT NOT NULL, status TEXT NOT NULL, image TEXT NOT NULL,"
    "  error TEXT, created REAL NOT NULL) WITHOUT ROWID;"
    /* api-webhooks.c */
    "CREATE TABLE conversation ("
    "  box TEXT NOT NULL, id TEXT NOT NULL, info TEXT NOT NULL, updated REAL NOT NULL,"
    "  PRIMARY KEY (box, id)) WITHOUT ROWID;"
    "CREATE TABLE webhook_event ("
    "  box TEXT NOT NULL, conversation TEXT NOT NULL, id TEXT NOT NULL, event TEXT NOT NULL,"
    "  added REAL NOT NULL, PRIMARY KEY (box, conversation, id));";

const char *const tn_db_migrations[] = {sandboxes, service, NULL};
