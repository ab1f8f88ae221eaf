/* The store: rows, names, claims by many at once, and what a killed writer leaves. */
#include "../base/scratch.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "runtime/owner.h"
#include "runtime/store.h"

static struct tn_record row(const char *id, const char *name, const char *pool)
{
    static atomic_int age = 1000; /* threads make rows, too */

    return (struct tn_record){.id = (char *)id,
                              .name = (char *)name,
                              .runtime = (char *)"jail",
                              .spec = (char *)"{}",
                              .key = (char *)"k",
                              .pool = (char *)pool,
                              .status = TN_STATUS_RUNNING,
                              .boot = (char *)tn_boot_id(),
                              .created = age++};
}

static struct tn_store *open_store(void)
{
    struct tn_error err = {0};
    struct tn_store *s = tn_store_open(scratch_path, &err);

    if (!s)
        fail_msg("%s", err.text);
    return s;
}

static void add(struct tn_store *s, const char *id, const char *name, const char *pool)
{
    struct tn_record r = row(id, name, pool);
    assert_int_equal(tn_store_add(s, &r, NULL), 0);
}

static void test_find(void **state)
{
    struct tn_store *s = open_store();
    struct tn_record r;
    struct tn_error err;

    add(s, "abcdefghij", "web", NULL);
    add(s, "abcxxxxxxx", NULL, NULL);
    static const struct {
        const char *which;
        const char *id; /* NULL: not found */
        const char *says;
    } table[] = {
        {"abcdefghij", "abcdefghij", NULL},
        {"web", "abcdefghij", NULL},
        {"abcd", "abcdefghij", NULL},
        {"abcx", "abcxxxxxxx", NULL},
        {"abc", NULL, "several sandboxes begin with 'abc'"},
        {"ab", NULL, "there is no sandbox 'ab'"},
        {"wbe", NULL, "did you mean 'web'?"},
        {"%", NULL, "there is no sandbox '%'"},
        {"' OR 1=1 --", NULL, "there is no sandbox"},
    };
    for (size_t i = 0; i < TN_COUNT(table); i++) {
        int failed = tn_store_find(s, table[i].which, &r, &err);
        assert_int_equal(failed, table[i].id ? 0 : -1);
        if (failed) {
            assert_non_null(strstr(err.text, table[i].says));
        } else {
            assert_string_equal(r.id, table[i].id);
            tn_record_done(&r);
        }
    }
    struct tn_record twin = row("zzzzzzzzzz", "web", NULL);
    assert_int_equal(tn_store_add(s, &twin, &err), -1);
    assert_int_equal(err.code, TN_E_CONFLICT);
    assert_string_equal(err.text, "there is a sandbox named 'web' already");
    tn_store_close(s);
}

static int count_rows(const struct tn_record *r, void *ctx)
{
    (*(int *)ctx)++;
    return 0;
}

static int rows_of(struct tn_store *s, enum tn_store_part part)
{
    int n = 0;
    assert_int_equal(tn_store_each(s, part, count_rows, &n, NULL), 0);
    return n;
}

static void test_parts(void **state)
{
    struct tn_store *s = open_store();
    struct tn_record owned = row("ccccccccc1", NULL, NULL);

    owned.owner = tn_owner_self();
    assert_int_equal(tn_store_add(s, &owned, NULL), 0);
    add(s, "ccccccccc2", NULL, "pool");
    add(s, "ccccccccc3", NULL, NULL);
    assert_int_equal(rows_of(s, TN_STORE_ALL), 3);
    assert_int_equal(rows_of(s, TN_STORE_CLAIMED), 2);
    assert_int_equal(rows_of(s, TN_STORE_BOUND), 1);
    assert_int_equal(tn_store_own(s, "ccccccccc1", (struct tn_owner){0}, NULL), 0);
    assert_int_equal(rows_of(s, TN_STORE_BOUND), 0);
    assert_int_equal(tn_store_disown(s, "ccccccccc1", NULL), 0); /* bound to nobody that lives */
    assert_int_equal(rows_of(s, TN_STORE_BOUND), 1);
    assert_int_equal(tn_store_remove(s, "ccccccccc1", NULL), 0);
    assert_int_equal(rows_of(s, TN_STORE_ALL), 2);
    tn_store_close(s);
}

static void test_place(void **state)
{
    struct tn_store *s = open_store();
    struct tn_place place = {
        .status = TN_STATUS_ERROR, .reason = (char *)"out of memory", .ref = (char *)"{\"pid\":1}"};
    struct tn_record r;

    add(s, "abcdefghij", NULL, NULL);
    assert_int_equal(tn_store_place(s, "abcdefghij", &place, NULL), 0);
    place = (struct tn_place){.status = TN_STATUS_RUNNING, .address = (char *)"unix:/x"};
    assert_int_equal(tn_store_place(s, "abcdefghij", &place, NULL), 0);
    assert_int_equal(tn_store_find(s, "abcdefghij", &r, NULL), 0);
    assert_int_equal(r.status, TN_STATUS_RUNNING);
    assert_string_equal(r.address, "unix:/x");
    assert_null(r.reason); /* of the past */
    assert_string_equal(r.ref, "{\"pid\":1}");
    tn_record_done(&r);
    tn_store_close(s);
}

/* --- many at once -------------------------------------------------------------------------- */

#define CLAIMERS 4
#define WARM 40

static void fill_pool(struct tn_store *s)
{
    char id[11];

    for (int i = 0; i < WARM; i++) {
        snprintf(id, sizeof id, "warm%06d", i);
        add(s, id, NULL, "pool");
    }
}

static void *claim_all(void *arg)
{
    struct tn_store *s = open_store();
    struct tn_record as = row("", NULL, NULL), got;
    intptr_t n = 0;

    while (tn_store_claim(s, "pool", &as, &got, NULL) == 1) {
        assert_null(got.pool);
        tn_record_done(&got);
        n++;
    }
    tn_store_close(s);
    return (void *)n;
}

static void test_claims(void **state)
{
    struct tn_store *s = open_store();
    pthread_t threads[CLAIMERS];
    intptr_t total = 0;

    fill_pool(s);
    assert_int_equal(tn_store_warm_count(s, "jail", "pool", NULL, NULL), WARM);
    for (int i = 0; i < CLAIMERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, claim_all, NULL), 0);
    for (int i = 0; i < CLAIMERS; i++) {
        void *n;
        pthread_join(threads[i], &n);
        total += (intptr_t)n;
    }
    assert_int_equal(total, WARM);
    assert_int_equal(tn_store_warm_count(s, "jail", "pool", NULL, NULL), 0);
    tn_store_close(s);
}

/* Threads of one process share a handle: what they ask for at once is one transaction. */
static void *claim_some(void *arg)
{
    struct tn_record as = row("", NULL, NULL), got;
    intptr_t n = 0;

    while (tn_store_claim(arg, "pool", &as, &got, NULL) == 1) {
        n += got.pool == NULL && got.id != NULL;
        tn_record_done(&got);
    }
    return (void *)n;
}

static intptr_t claim_in_threads(void)
{
    struct tn_store *s = open_store();
    pthread_t threads[CLAIMERS];
    intptr_t total = 0;

    for (int i = 0; i < CLAIMERS; i++)
        if (pthread_create(&threads[i], NULL, claim_some, s))
            abort();
    for (int i = 0; i < CLAIMERS; i++) {
        void *n;
        pthread_join(threads[i], &n);
        total += (intptr_t)n;
    }
    tn_store_close(s);
    return total;
}

/* Two processes with several threads each: together they get what there is, and nothing twice. */
static void test_claims_of_threads_in_two_processes(void **state)
{
    struct tn_store *s = open_store();
    int status;

    fill_pool(s);
    pid_t pid = fork();
    if (pid == 0)
        _exit((int)claim_in_threads());
    intptr_t ours = claim_in_threads();
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(ours + WEXITSTATUS(status), WARM);
    assert_int_equal(rows_of(s, TN_STORE_CLAIMED), WARM);
    assert_int_equal(rows_of(s, TN_STORE_WARM), 0);
    tn_store_close(s);
}

/* One that is killed among its claims leaves every row claimed or warm, and lets the next one. */
static void test_a_killed_claimer(void **state)
{
    struct tn_store *s = open_store();

    fill_pool(s);
    pid_t pid = fork();
    if (pid == 0)
        _exit((int)claim_in_threads());
    int64_t deadline = tn_deadline_in(30);
    while (rows_of(s, TN_STORE_CLAIMED) < 2)
        assert_true(tn_now() < deadline);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    int taken = rows_of(s, TN_STORE_CLAIMED);
    assert_int_equal(claim_in_threads(), WARM - taken);
    assert_int_equal(rows_of(s, TN_STORE_CLAIMED), WARM);
    tn_store_close(s);
}

/* A name that is taken costs the claimer its claim, and the sandbox stays where it is. */
static void test_a_claim_with_a_name(void **state)
{
    struct tn_store *s = open_store();
    struct tn_record as = row("", "web", NULL), got;
    struct tn_error err = {0};

    add(s, "warm000001", NULL, "pool");
    add(s, "warm000002", NULL, "pool");
    assert_int_equal(tn_store_claim(s, "pool", &as, &got, NULL), 1);
    assert_string_equal(got.name, "web");
    tn_record_done(&got);
    tn_autorecord struct tn_record found = {0};
    assert_int_equal(tn_store_find(s, "web", &found, NULL), 0);
    assert_string_equal(found.id, "warm000001");
    assert_int_equal(tn_store_claim(s, "pool", &as, &got, &err), -1);
    assert_int_equal(err.code, TN_E_CONFLICT);
    assert_null(got.id);
    assert_int_equal(tn_store_warm_count(s, "jail", "pool", NULL, NULL), 1);
    tn_store_close(s);
}

/* That of whoever filled the pool is not that of whoever claims. */
static void test_a_claim_without_the_name_of_before(void **state)
{
    struct tn_store *s = open_store();
    struct tn_record as = row("", NULL, NULL), got;

    add(s, "warm000001", "before", "pool");
    assert_int_equal(tn_store_claim(s, "pool", &as, &got, NULL), 1);
    assert_null(got.name);
    tn_record_done(&got);
    assert_int_equal(tn_store_find(s, "before", &got, NULL), -1);
    tn_store_close(s);
}

#define FILLERS 4
#define MOST 10

struct filler {
    char letter;
    int added, refused;
};

/* With a connection of its own, as another process has it. */
static void *fill(void *arg)
{
    struct filler *f = arg;
    struct tn_store *s = open_store();

    for (int i = 0; i < MOST; i++) {
        struct tn_error err = {0};
        char id[11];
        snprintf(id, sizeof id, "fill%c%05d", f->letter, i);
        struct tn_record r = row(id, NULL, "bounded");
        r.pool_max = MOST;
        if (tn_store_add(s, &r, &err) == 0)
            f->added++;
        else if (err.code == TN_E_CONFLICT)
            f->refused++;
    }
    tn_store_close(s);
    return NULL;
}

/* However many fill a pool, it has no more than it may have; one that was taken makes room. */
static void test_a_pool_is_bounded(void **state)
{
    struct tn_store *s = open_store();
    struct filler fillers[FILLERS] = {0};
    pthread_t threads[FILLERS];
    int added = 0, refused = 0, ready = -1;

    for (int i = 0; i < FILLERS; i++) {
        fillers[i].letter = (char)('a' + i);
        assert_int_equal(pthread_create(&threads[i], NULL, fill, &fillers[i]), 0);
    }
    for (int i = 0; i < FILLERS; i++) {
        pthread_join(threads[i], NULL);
        added += fillers[i].added;
        refused += fillers[i].refused;
    }
    assert_int_equal(added, MOST);
    assert_int_equal(refused, FILLERS * MOST - MOST);
    assert_int_equal(tn_store_warm_count(s, "jail", "bounded", &ready, NULL), MOST);
    assert_int_equal(ready, MOST);
    struct tn_record one = row("oneofmany0", NULL, "bounded"), got;
    one.pool_max = MOST;
    assert_int_equal(tn_store_add(s, &one, NULL), -1);
    struct tn_record as = row("", NULL, NULL);
    assert_int_equal(tn_store_claim(s, "bounded", &as, &got, NULL), 1);
    /* It is in no pool any more, so nobody takes it out again. */
    assert_int_equal(tn_store_unpool(s, got.id, tn_owner_self(), NULL), 0);
    tn_record_done(&got);
    one.status = TN_STATUS_STARTING;
    assert_int_equal(tn_store_add(s, &one, NULL), 0);
    assert_int_equal(tn_store_warm_count(s, "jail", "bounded", &ready, NULL), MOST);
    assert_int_equal(ready, MOST - 1);
    assert_int_equal(tn_store_unpool(s, "oneofmany0", tn_owner_self(), NULL), 1);
    assert_int_equal(tn_store_find(s, "oneofmany0", &got, NULL), 0);
    assert_null(got.pool);
    assert_int_equal(got.owner.pid, getpid());
    tn_record_done(&got);
    tn_store_close(s);
}

/* What gc may take at this moment, or another process has made for itself, is not handed out. */
static void test_claims_of_others(void **state)
{
    struct tn_store *s = open_store();
    struct tn_record as = row("", NULL, NULL), got;
    struct tn_record foreign = row("foreign001", NULL, "pool"),
                     spent = row("spent00001", NULL, "pool"), own = row("own0000001", NULL, "pool");

    own.owner = foreign.owner = tn_owner_self();
    foreign.owner.start++;
    spent.idle = 10;
    spent.lease = 5;
    assert_int_equal(tn_store_add(s, &foreign, NULL), 0);
    assert_int_equal(tn_store_add(s, &spent, NULL), 0);
    assert_int_equal(tn_store_claim(s, "pool", &as, &got, NULL), 0);

    assert_int_equal(tn_store_add(s, &own, NULL), 0);
    assert_int_equal(tn_store_claim(s, "pool", &as, &got, NULL), 1);
    assert_string_equal(got.id, "own0000001");
    assert_int_equal(got.owner.pid, 0); /* as the claimer wants it */
    tn_record_done(&got);
    tn_autorecord struct tn_record found = {0};
    assert_int_equal(tn_store_find(s, "own0000001", &found, NULL), 0);
    assert_int_equal(found.owner.pid, 0);
    tn_store_close(s);
}

/* A writer that is killed between any two instructions leaves whole rows. */
static void test_killed_writer(void **state)
{
    struct tn_store *s = open_store();

    for (int round = 0; round < 5; round++) {
        int before = rows_of(s, TN_STORE_ALL);
        pid_t pid = fork();

        if (pid == 0) {
            struct tn_store *own = tn_store_open(scratch_path, NULL);
            for (int i = 0;; i++) {
                char id[32];
                snprintf(id, sizeof id, "kill%d%05d", round, i);
                struct tn_record r = row(id, NULL, NULL);
                tn_store_add(own, &r, NULL);
            }
        }
        int64_t deadline = tn_deadline_in(30);
        while (rows_of(s, TN_STORE_ALL) < before + 10)
            assert_true(tn_now() < deadline);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        assert_true(rows_of(s, TN_STORE_ALL) >= before + 10);
    }
    add(s, "afterwards", NULL, NULL);
    tn_store_close(s);
}

/* --- leases -------------------------------------------------------------------------------- */

static struct tn_record find(struct tn_store *s, const char *id)
{
    struct tn_record r;

    assert_int_equal(tn_store_find(s, id, &r, NULL), 0);
    return r;
}

/* Whatever the wall clock says. */
static void test_idle_follows_no_wall_clock(void **state)
{
    struct tn_store *s = open_store();
    struct tn_record given = row("abcdefghij", NULL, NULL);

    given.used = 4e9; /* as if the clock had been in another century */
    given.idle = 100;
    given.lease = 50;
    given.boot = (char *)"another boot";
    assert_int_equal(tn_store_add(s, &given, NULL), 0);
    tn_autorecord struct tn_record spent = find(s, "abcdefghij");
    assert_true(spent.idle >= 100 && spent.idle < 160);
    assert_int_equal(tn_store_touch(s, "abcdefghij", NULL), 0);
    assert_int_equal(tn_store_own(s, "abcdefghij", tn_owner_self(), NULL), 0);
    tn_autorecord struct tn_record used = find(s, "abcdefghij");
    assert_true(used.idle >= 0 && used.idle < 60);
    assert_true(tn_owner_lives(used.owner, used.boot));

    struct timespec up;
    assert_true(tn_db_run(tn_store_db(s), NULL, "UPDATE sandbox SET used_boot = 'b'", "") == 1);
    tn_autorecord struct tn_record earlier = find(s, "abcdefghij");
    clock_gettime(CLOCK_BOOTTIME, &up);
    assert_true(earlier.idle >= (double)up.tv_sec - 60 && earlier.idle <= (double)up.tv_sec + 1);
    tn_store_close(s);
}

/* A store as version 3 left it: the wall clock decides once more, within the lease. */
static void test_leases_of_the_version_before(void **state)
{
    struct tn_store *s = open_store();
    double now = (double)time(NULL);
    const struct {
        const char *id;
        double used, lease, least, most;
    } table[] = {
        {"fresh00000", now - 20, 100, 19, 60},
        {"spent00000", now - 1000, 100, 100, 160},
        {"future0000", now + 1e6, 100, 0, 60},
        {"forever000", now - 1000, 0, 0, 60},
    };

    for (size_t i = 0; i < TN_COUNT(table); i++) {
        struct tn_record r = row(table[i].id, NULL, NULL);
        r.used = table[i].used;
        r.lease = table[i].lease;
        assert_int_equal(tn_store_add(s, &r, NULL), 0);
    }
    static const char *const back[] = {"DROP TRIGGER sandbox_used",
                                       "ALTER TABLE sandbox DROP COLUMN used_up",
                                       "ALTER TABLE sandbox DROP COLUMN used_boot",
                                       "ALTER TABLE api_key DROP COLUMN max_pids",
                                       "ALTER TABLE api_key DROP COLUMN max_disk",
                                       "ALTER TABLE api_key DROP COLUMN security",
                                       "ALTER TABLE api_key DROP COLUMN gvisor",
                                       "DROP TRIGGER box_grant_gone",
                                       "DROP TRIGGER box_grant_born",
                                       "DROP TABLE box_grant",
                                       "ALTER TABLE api_key DROP COLUMN network",
                                       "ALTER TABLE box DROP COLUMN timeout",
                                       "ALTER TABLE box DROP COLUMN timeout_how",
                                       "ALTER TABLE box DROP COLUMN asleep",
                                       "ALTER TABLE box DROP COLUMN stopped",
                                       "DROP TRIGGER recipe_box_gone",
                                       "DROP TABLE recipe",
                                       "DROP TABLE recipe_tag",
                                       "DROP TABLE blob",
                                       "DROP TRIGGER tcp_port_gone",
                                       "DROP TABLE tcp_port",
                                       "PRAGMA user_version = 3"};
    for (size_t i = 0; i < TN_COUNT(back); i++)
        assert_true(tn_db_run(tn_store_db(s), NULL, back[i], "") >= 0);
    tn_store_close(s);
    s = open_store();
    for (size_t i = 0; i < TN_COUNT(table); i++) {
        tn_autorecord struct tn_record r = find(s, table[i].id);
        assert_true(r.idle >= table[i].least && r.idle <= table[i].most);
        assert_true(r.lease == table[i].lease && r.used == table[i].used);
    }
    tn_store_close(s);
}

/* A process of version 3 goes on with a store that is of this version by now: what it uses, makes
 * and claims is not older than it says. */
static void test_leases_of_an_older_process(void **state)
{
    static const char *const statements[] = {
        "UPDATE sandbox SET used = ?2 WHERE id = ?1",
        "INSERT INTO sandbox (id, name, runtime, spec, key, status, owner_pid, owner_start,"
        " created, used, lease) VALUES (?1, ?1, 'jail', '{}', 'key', 1, 0, 0, ?2, ?2, 100)",
        "UPDATE sandbox SET pool = NULL, name = ?1, spec = '{}', boot = NULL, owner_pid = 0,"
        " owner_start = 0, created = ?2, used = ?2, lease = 100 WHERE id = ?1",
    };
    static const char *const ids[] = {"touched000", "inserted00", "claimed000"};
    struct tn_store *s = open_store();
    struct tn_db *db = tn_store_db(s);
    double now = (double)time(NULL);

    for (size_t i = 0; i < TN_COUNT(ids); i++) {
        struct tn_record old = row(ids[i], NULL, NULL);
        old.idle = 1000;
        old.lease = 100;
        if (strncmp(statements[i], "INSERT", 6) != 0)
            assert_int_equal(tn_store_add(s, &old, NULL), 0);
        assert_true(tn_db_run(db, NULL, statements[i], "td", ids[i], now - 20) >= 0);
        tn_autorecord struct tn_record by_older = find(s, ids[i]);
        assert_true(by_older.idle >= 19 && by_older.idle < 80);

        /* Its clock may be wrong, but then nothing is taken before its time. */
        assert_true(tn_db_run(db, NULL, statements[0], "td", ids[i], now + 1e6) >= 0);
        tn_autorecord struct tn_record future = find(s, ids[i]);
        assert_true(future.idle >= 0 && future.idle < 1e-9);

        /* And of what runs out there, it does. */
        assert_true(tn_db_run(db, NULL, statements[0], "td", ids[i], now - 500) >= 0);
        tn_autorecord struct tn_record spent = find(s, ids[i]);
        assert_true(spent.idle >= 499);

        assert_int_equal(tn_store_touch(s, ids[i], NULL), 0); /* by one of this version */
        tn_autorecord struct tn_record touched = find(s, ids[i]);
        assert_true(touched.idle >= 0 && touched.idle < 60);
        assert_true(tn_db_run(db, NULL, "UPDATE sandbox SET owner_pid = 0 WHERE id = ?1", "t",
                              ids[i]) == 1);
        tn_autorecord struct tn_record same = find(s, ids[i]);
        assert_true(same.idle >= touched.idle && same.idle < 60);
    }
    tn_store_close(s);
}

/* Opens a new store when told to, as others do at the same moment. */
static int open_when_told(int gun, const char *directory)
{
    struct tn_error err = {0};
    char byte;

    if (read(gun, &byte, 1) != 0)
        return 2;
    struct tn_store *s = tn_store_open(directory, &err);
    if (!s)
        fprintf(stderr, "%s\n", err.text);
    tn_store_close(s);
    return s ? 0 : 1;
}

static void test_made_by_many_at_once(void **state)
{
    enum { ROUNDS = 30, PROCESSES = 8 };

    for (int round = 0; round < ROUNDS; round++) {
        char directory[64];
        pid_t pids[PROCESSES];
        int gun[2], status;

        snprintf(directory, sizeof directory, "%s/new%d", scratch_path, round);
        assert_int_equal(pipe(gun), 0);
        for (int i = 0; i < PROCESSES; i++) {
            pids[i] = fork();
            assert_true(pids[i] >= 0);
            if (pids[i] == 0) {
                close(gun[1]);
                _exit(open_when_told(gun[0], directory));
            }
        }
        close(gun[1]);
        close(gun[0]);
        for (int i = 0; i < PROCESSES; i++) {
            assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
            assert_int_equal(status, 0);
        }
    }
}

/* --- locks --------------------------------------------------------------------------------- */

static void test_lock(void **state)
{
    struct tn_error err;
    int first = tn_sandbox_lock(scratch_path, "abcdefghij", 0, &err);
    int other = tn_sandbox_lock(scratch_path, "abcdefghik", 0, &err);

    assert_true(first >= 0 && other >= 0);
    assert_int_equal(tn_sandbox_lock(scratch_path, "abcdefghij", tn_now() + 5 * TN_MILLI, &err),
                     -1);
    assert_int_equal(err.code, TN_E_BUSY);
    close(first);
    first = tn_sandbox_lock(scratch_path, "abcdefghij", 0, &err);
    assert_true(first >= 0);
    close(first);
    close(other);
}

static void *lock_and_tell(void *arg)
{
    int fd = tn_sandbox_lock(scratch_path, "abcdefghij", tn_deadline_in(30), NULL);

    close(fd);
    return (void *)(intptr_t)(fd >= 0);
}

/* A waiter gets the lock when its holder, another process, is killed. */
static void test_lock_of_the_dead(void **state)
{
    int ready[2];
    pthread_t waiter;
    void *got;
    char byte;

    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        bool ok = tn_sandbox_lock(scratch_path, "abcdefghij", 0, NULL) >= 0;
        if (write(ready[1], ok ? "y" : "n", 1) == 1)
            pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    assert_int_equal(tn_sandbox_lock(scratch_path, "abcdefghij", 0, NULL), -1);
    assert_int_equal(pthread_create(&waiter, NULL, lock_and_tell, NULL), 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    pthread_join(waiter, &got);
    assert_true((intptr_t)got);
    close(ready[0]);
    close(ready[1]);
}

static void test_owner(void **state)
{
    struct tn_owner me = tn_owner_self();

    assert_true(tn_owner_lives(me, tn_boot_id()));
    assert_false(tn_owner_lives(me, "another boot"));
    assert_false(
        tn_owner_lives((struct tn_owner){.pid = me.pid, .start = me.start + 1}, tn_boot_id()));
}

static void test_snapshots(void **state)
{
    struct tn_store *s = open_store();
    struct tn_error err;

    add(s, "abcdefghij", NULL, NULL);
    assert_int_equal(tn_store_snapshot_add(s, "abcdefghij", "one", NULL), 0);
    assert_int_equal(tn_store_snapshot_add(s, "abcdefghij", "one", &err), -1);
    assert_int_equal(err.code, TN_E_CONFLICT);
    assert_int_equal(tn_store_snapshot_remove(s, "abcdefghij", "two", &err), -1);
    assert_int_equal(err.code, TN_E_NOT_FOUND);
    assert_int_equal(tn_store_remove(s, "abcdefghij", NULL), 0);
    add(s, "abcdefghij", NULL, NULL);
    assert_int_equal(tn_store_snapshot_add(s, "abcdefghij", "one", NULL), 0);
    tn_store_close(s);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_open, scratch_close)
    const struct CMUnitTest tests[] = {
        TEST(test_find),
        TEST(test_parts),
        TEST(test_place),
        TEST(test_claims),
        TEST(test_claims_of_threads_in_two_processes),
        TEST(test_a_killed_claimer),
        TEST(test_a_claim_with_a_name),
        TEST(test_a_claim_without_the_name_of_before),
        TEST(test_a_pool_is_bounded),
        TEST(test_claims_of_others),
        TEST(test_killed_writer),
        TEST(test_idle_follows_no_wall_clock),
        TEST(test_leases_of_the_version_before),
        TEST(test_leases_of_an_older_process),
        TEST(test_made_by_many_at_once),
        TEST(test_lock),
        TEST(test_lock_of_the_dead),
        TEST(test_owner),
        TEST(test_snapshots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
