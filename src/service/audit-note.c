/* What is done beside the service reaches its audit log by way of the store. */
#include <pthread.h>

#include "base/log.h"
#include "service/audit.h"
#include "service/clock.h"

/* In one go; the rest comes with the next. */
enum { NOTES_AT_ONCE = 64 };

int audit_note(struct tn_db *db, const char *what, const char *detail, struct tn_error *err)
{
    return tn_db_run(db, err, "INSERT INTO audit_note (what, detail, noted) VALUES (?, ?, ?)",
                     "ttd", what, detail, service_time()) < 0
               ? -1
               : 0;
}

struct notes {
    struct note {
        int64_t n;
        char *what, *detail;
    } all[NOTES_AT_ONCE];
    size_t count;
};

static int collect(const struct tn_db_row *row, void *ctx)
{
    struct notes *notes = ctx;

    notes->all[notes->count++] = (struct note){
        .n = tn_db_int(row, 0),
        .what = tn_strdup(tn_db_text(row, 1)),
        .detail = tn_strdup_or_null(tn_db_text(row, 2)),
    };
    return 0;
}

/* The line first: a note is lost never, and told twice at worst. */
static int take(struct audit *a, struct tn_db *db, const struct note *note, struct tn_error *err)
{
    const struct audit_entry entry = {
        .what = note->what, .result = tn_code_row(TN_OK)->name, .detail = note->detail};

    if (audit_write(a, &entry, err) < 0)
        return -1;
    return tn_db_run(db, err, "DELETE FROM audit_note WHERE n = ?", "i", note->n) < 0 ? -1 : 0;
}

void audit_take_notes(struct audit *a)
{
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    struct tn_db *db = audit_store(a);
    struct notes notes = {0};
    struct tn_error err = {0};

    if (!db)
        return;
    pthread_mutex_lock(&one_at_a_time);
    int failed = tn_db_each(db, collect, &notes, &err,
                            "SELECT n, what, detail FROM audit_note ORDER BY n LIMIT ?", "i",
                            (int64_t)NOTES_AT_ONCE) < 0;
    for (size_t i = 0; i < notes.count; i++) {
        failed = failed || take(a, db, &notes.all[i], &err) < 0;
        free(notes.all[i].what);
        free(notes.all[i].detail);
    }
    pthread_mutex_unlock(&one_at_a_time);
    if (failed)
        tn_log(TN_LOG_ERROR, "audit log: notes of other programs were not written",
               tn_log_str("error", err.text));
}
