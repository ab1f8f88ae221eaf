/* The public interface over the journal of a sandbox. */
#include <tendon/tendon.h>

#include "base/clock.h"
#include "event/journal.h"
#include "tendon/library.h"

struct tendon_events {
    struct tn_journal_reader *reader;
};

static struct tn_journal_reader *open_reader(const char *directory, long long from,
                                             struct tn_error *err)
{
    int64_t newest = from < 0 ? tn_journal_newest(directory, err) : -1;

    if (newest < -1)
        return NULL;
    return tn_journal_reader_new(directory, from < 0 ? newest + 1 : from, err);
}

struct tendon_events *tendon_events_open(struct tendon_sandbox *sb, long long from,
                                         struct tendon_error *err)
{
    struct tn_error why = {0};
    struct tn_journal_reader *reader = open_reader(tn_sandbox_directory(sb->sb), from, &why);

    if (!reader) {
        tn_library_fail(err, &why);
        return NULL;
    }
    struct tendon_events *e = tn_calloc(1, sizeof *e);
    e->reader = reader;
    return e;
}

void tendon_events_close(struct tendon_events *e)
{
    if (!e)
        return;
    tn_journal_reader_free(e->reader);
    free(e);
}

char *tendon_events_next(struct tendon_events *e, double seconds, struct tendon_error *err)
{
    int64_t deadline = tn_deadline_in(seconds);
    struct tn_journal_event event;
    struct tn_error why = {0};
    int found;

    while ((found = tn_journal_next(e->reader, &event, &why)) == 0)
        if (tn_journal_wait(e->reader, -1, deadline, &why) < 0)
            break;
    if (found == 1)
        return tn_strndup(event.json, event.len);
    tn_library_fail(err, &why);
    return NULL;
}
