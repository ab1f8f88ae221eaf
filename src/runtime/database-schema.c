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
    "  id TEXT PRIMARY KEY, name TEXT NOT NULL, tenant TEXT NOT NULL, digest TEXT NOT NULL,"
    "  scopes INTEGER NOT NULL, max_sandboxes INTEGER NOT NULL, max_running INTEGER NOT NULL,"
    "  max_memory INTEGER NOT NULL, max_cpus REAL NOT NULL, max_seconds REAL NOT NULL,"
    "  requests_per_second REAL NOT NULL, created REAL NOT NULL, used REAL NOT NULL,"
    "  expires REAL NOT NULL, revoked INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE UNIQUE INDEX api_key_name ON api_key (name) WHERE revoked = 0;"
    "CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
    /* box.c: sandboxes of the service, under the id of their sandbox row */
    "CREATE TABLE box ("
    "  id TEXT PRIMARY KEY, tenant TEXT NOT NULL, key_id TEXT NOT NULL, session TEXT, name TEXT,"
    "  template TEXT, runtime TEXT NOT NULL, parent TEXT, snapshot TEXT, secret TEXT NOT NULL,"
    "  spec TEXT NOT NULL, metadata TEXT, state INTEGER NOT NULL, goal INTEGER NOT NULL,"
    "  made INTEGER NOT NULL, cause INTEGER NOT NULL, reason TEXT, created REAL NOT NULL,"
    "  started REAL NOT NULL, used REAL NOT NULL, expires REAL NOT NULL,"
    "  idle_pause REAL NOT NULL, idle_stop REAL NOT NULL, resource_factor REAL NOT NULL,"
    "  restarts INTEGER NOT NULL, last_action INTEGER NOT NULL, last_action_text TEXT,"
    "  version INTEGER NOT NULL, UNIQUE (tenant, session)) WITHOUT ROWID;"
    "CREATE TABLE idempotency ("
    "  tenant TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL, box TEXT NOT NULL,"
    "  created REAL NOT NULL, PRIMARY KEY (tenant, key)) WITHOUT ROWID;"
    "CREATE INDEX idempotency_age ON idempotency (created);"
    /* pools.c */
    "CREATE TABLE pool ("
    "  runtime TEXT NOT NULL, digest TEXT NOT NULL, name TEXT NOT NULL, template TEXT,"
    "  spec TEXT NOT NULL, target INTEGER NOT NULL, minimum INTEGER NOT NULL,"
    "  burst INTEGER NOT NULL, configured INTEGER NOT NULL, gone INTEGER NOT NULL,"
    "  PRIMARY KEY (runtime, digest)) WITHOUT ROWID;"
    "CREATE UNIQUE INDEX pool_name ON pool (name) WHERE gone = 0;"
    /* api-openhands-build.c */
    "CREATE TABLE build ("
    "  id TEXT PRIMARY KEY, tenant TEXT NOT NULL, status TEXT NOT NULL, image TEXT NOT NULL,"
    "  error TEXT, created REAL NOT NULL) WITHOUT ROWID;"
    /* api-webhooks.c: what agent servers in boxes tell, as long as the box is there */
    "CREATE TABLE conversation ("
    "  box TEXT NOT NULL, id TEXT NOT NULL, info TEXT NOT NULL, updated REAL NOT NULL,"
    "  PRIMARY KEY (box, id)) WITHOUT ROWID;"
    "CREATE TABLE webhook_event ("
    "  n INTEGER PRIMARY KEY AUTOINCREMENT, box TEXT NOT NULL, conversation TEXT NOT NULL,"
    "  id TEXT NOT NULL, size INTEGER NOT NULL, added REAL NOT NULL, event TEXT NOT NULL,"
    "  UNIQUE (box, conversation, id));"
    "CREATE INDEX webhook_event_size ON webhook_event (box, n, size);"
    "CREATE TRIGGER box_gone AFTER DELETE ON box BEGIN"
    "  DELETE FROM conversation WHERE box = OLD.id;"
    "  DELETE FROM webhook_event WHERE box = OLD.id;"
    " END;"
    "CREATE TABLE tenant_secret ("
    "  tenant TEXT NOT NULL, provider TEXT NOT NULL, value TEXT NOT NULL,"
    "  PRIMARY KEY (tenant, provider)) WITHOUT ROWID;";

/* audit-note.c: what programs beside the service did, until it is in the audit log */
static const char audit_notes[] =
    "CREATE TABLE audit_note ("
    "  n INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT NOT NULL, detail TEXT, noted REAL NOT NULL);";

/* When a sandbox was last used, by a clock that nobody sets (the functions are those of
 * database.c); of those that are there the wall clock has the last word once more. */
static const char leases[] = "ALTER TABLE sandbox ADD COLUMN used_up REAL NOT NULL DEFAULT 0;"
                             "ALTER TABLE sandbox ADD COLUMN used_boot TEXT;"
                             "UPDATE sandbox SET used_boot = boot_id(), used_up = uptime() -"
                             "  max(0, min(lease, (julianday('now') - 2440587.5) * 86400 - used));";

/* A process from before goes on with the store, and knows nothing of that clock: what it has used
 * has no time by it. */
static const char leases_of_older[] =
    "CREATE TRIGGER sandbox_used AFTER UPDATE OF used ON sandbox WHEN NEW.used_up = OLD.used_up"
    " BEGIN UPDATE sandbox SET used_boot = NULL WHERE id = NEW.id; END;";

/* key.c: further ceilings of a key */
static const char key_limits[] =
    "ALTER TABLE api_key ADD COLUMN max_pids INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE api_key ADD COLUMN max_disk INTEGER NOT NULL DEFAULT 0;";

/* key.c: what becomes of risky actions, as an object of those thresholds that are its own */
static const char key_security[] =
    "ALTER TABLE api_key ADD COLUMN security TEXT NOT NULL DEFAULT '{}';";

/* key.c: whose sandboxes must run on gVisor */
static const char key_walls[] = "ALTER TABLE api_key ADD COLUMN gvisor INTEGER NOT NULL DEFAULT 0;";

/* box-network.c: rules that an administrator gave to the sandbox of a tenant, beyond its bounds */
static const char granted_rules[] =
    "CREATE TABLE box_grant ("
    "  box TEXT NOT NULL, rule TEXT NOT NULL, PRIMARY KEY (box, rule)) WITHOUT ROWID;"
    "CREATE TRIGGER box_grant_gone AFTER DELETE ON box BEGIN"
    "  DELETE FROM box_grant WHERE box = OLD.id;"
    " END;";

/* key.c: the widest network of its sandboxes, as spec.c calls it */
static const char key_network[] =
    "ALTER TABLE api_key ADD COLUMN network TEXT NOT NULL DEFAULT 'default';";

/* box.h: when a box that runs is put to rest or deleted although it is in use */
static const char box_timeouts[] =
    "ALTER TABLE box ADD COLUMN timeout REAL NOT NULL DEFAULT 0;"
    "ALTER TABLE box ADD COLUMN timeout_how INTEGER NOT NULL DEFAULT 0;";

/* e2b/build.c: templates of recipes; the box of one that is ready has its files */
static const char recipes[] =
    "CREATE TABLE recipe ("
    "  id TEXT PRIMARY KEY, tenant TEXT NOT NULL, key TEXT NOT NULL, template TEXT NOT NULL,"
    "  name TEXT NOT NULL, status TEXT NOT NULL, wish TEXT NOT NULL, box TEXT, built TEXT,"
    "  step TEXT, reason TEXT, log TEXT NOT NULL DEFAULT '', uploaded INTEGER NOT NULL DEFAULT 0,"
    "  created REAL NOT NULL);"
    "CREATE INDEX recipe_name ON recipe (tenant, name);"
    "CREATE INDEX recipe_template ON recipe (template);"
    "CREATE TABLE recipe_tag ("
    "  tenant TEXT NOT NULL, name TEXT NOT NULL, tag TEXT NOT NULL, recipe TEXT NOT NULL,"
    "  created REAL NOT NULL, PRIMARY KEY (tenant, name, tag)) WITHOUT ROWID;"
    "CREATE TRIGGER recipe_box_gone AFTER DELETE ON box BEGIN"
    "  DELETE FROM recipe WHERE box = OLD.id AND status = 'ready';"
    " END;"
    "CREATE TRIGGER recipe_gone AFTER DELETE ON recipe BEGIN"
    "  DELETE FROM recipe_tag WHERE recipe = OLD.id;"
    " END;";

/* service/blobs.h: those of a build go with its end */
static const char blobs[] =
    "CREATE TABLE blob ("
    "  id TEXT PRIMARY KEY, tenant TEXT NOT NULL, key TEXT NOT NULL, owner TEXT NOT NULL,"
    "  name TEXT NOT NULL, words TEXT, state INTEGER NOT NULL DEFAULT 0,"
    "  size INTEGER NOT NULL DEFAULT 0, charge INTEGER NOT NULL DEFAULT 0,"
    "  created REAL NOT NULL, expires REAL NOT NULL);"
    "CREATE INDEX blob_name ON blob (tenant, owner, name);"
    "CREATE TRIGGER recipe_ended AFTER UPDATE OF status ON recipe"
    " WHEN NEW.status IN ('ready', 'error') BEGIN"
    "  DELETE FROM blob WHERE tenant = NEW.tenant AND owner = NEW.id;"
    " END;"
    "CREATE TRIGGER recipe_gone_with_blobs AFTER DELETE ON recipe BEGIN"
    "  DELETE FROM blob WHERE tenant = OLD.tenant AND owner = OLD.id;"
    " END;"
    "ALTER TABLE recipe DROP COLUMN uploaded;";

/* a tenant with many blobs does not slow down others */
static const char blob_orders[] =
    "DROP INDEX blob_name;"
    "CREATE INDEX blob_name ON blob (tenant, owner, name, created DESC, id);"
    "CREATE INDEX blob_created ON blob (tenant, owner, created DESC, id);"
    "CREATE INDEX blob_charge ON blob (tenant, charge);"
    "CREATE INDEX blob_expires ON blob (expires) WHERE expires > 0;";

/* e2b/snapshot.c: the box that a template is a snapshot of; NULL: it was built */
static const char recipe_sources[] = "ALTER TABLE recipe ADD COLUMN source TEXT;";

/* service/tcp-ports.c: ports of this machine that lead to a port of a box */
static const char tcp_ports[] =
    "CREATE TABLE tcp_port ("
    "  port INTEGER PRIMARY KEY, box TEXT NOT NULL, tenant TEXT NOT NULL,"
    "  inside INTEGER NOT NULL, UNIQUE (box, inside));"
    "CREATE INDEX tcp_port_tenant ON tcp_port (tenant);"
    "CREATE TRIGGER tcp_port_gone AFTER DELETE ON box BEGIN"
    "  DELETE FROM tcp_port WHERE box = OLD.id;"
    " END;";

/* box.h: one that was stopped because it could not be paused */
static const char box_sleeps[] = "ALTER TABLE box ADD COLUMN asleep INTEGER NOT NULL DEFAULT 0;";

/* box.h: since when it is stopped */
static const char box_stops[] = "ALTER TABLE box ADD COLUMN stopped REAL NOT NULL DEFAULT 0;";

/* box-network.c: what an administrator denies to a sandbox it denies to its forks */
static const char granted_denials[] =
    "CREATE TRIGGER box_grant_born AFTER INSERT ON box WHEN NEW.parent IS NOT NULL BEGIN"
    "  INSERT OR IGNORE INTO box_grant SELECT NEW.id, rule FROM box_grant"
    "   WHERE box = NEW.parent AND rule LIKE '!%';"
    " END;";

const char *const tn_db_migrations[] = {sandboxes,       service,     audit_notes,     leases,
                                        leases_of_older, key_limits,  key_security,    key_walls,
                                        granted_rules,   key_network, box_timeouts,    recipes,
                                        blobs,           blob_orders, recipe_sources,  tcp_ports,
                                        box_sleeps,      box_stops,   granted_denials, NULL};
