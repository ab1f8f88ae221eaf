/* A journal of any bytes at all: readers take what is whole, in order, from wherever they begin;
 * a writer mends the end, adds its event, and takes nothing away from what could be read before. */
#include <fcntl.h>

#include "base/fs.h"
#include "event/journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char directory[] = "/tmp/tendon-fuzz-journal-XXXXXX";

static void must(bool truth)
{
    if (!truth)
        abort();
}

static void remove_directory(void)
{
    tn_autofd int parent = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
    tn_fs_remove_tree(parent, directory + strlen("/tmp/"), 0, NULL);
}

static void write_log(const uint8_t *data, size_t size)
{
    char path[sizeof directory + 32];

    if (strstr(directory, "XXXXXX")) {
        must(mkdtemp(directory));
        atexit(remove_directory);
    }
    snprintf(path, sizeof path, "%s/" TN_JOURNAL_LOG, directory);
    tn_autofd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0 && tn_fs_write(fd, data, size, NULL) == 0);
}

struct summary {
    int64_t count, last;
    size_t bytes;
};

static struct summary read_from(int64_t from)
{
    tn_autojournalreader struct tn_journal_reader *r = tn_journal_reader_new(directory, from, NULL);
    struct summary s = {.last = from - 1};
    struct tn_journal_event e;
    int found;

    must(r);
    while ((found = tn_journal_next(r, &e, NULL)) == 1) {
        must(e.id > s.last);
        s.last = e.id;
        s.bytes += e.len;
        s.count++;
    }
    must(found == 0);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t id = -1;

    write_log(data, size);
    struct summary before = read_from(0);
    if (before.count)
        must(read_from(before.last).last >= before.last);
    struct tn_journal *j = tn_journal_open(directory, 0, NULL);
    must(j);
    bool full = tn_journal_next_id(j) > INT64_C(999999999999);
    must(tn_journal_append(j, "{}", 2, &id, NULL) == (full ? -1 : 0));
    tn_journal_close(j);
    if (full)
        return 0;
    struct summary after = read_from(0);
    must(after.count == before.count || after.count == before.count + 1);
    must(after.bytes >= before.bytes);
    if (id > before.last)
        must(after.count == before.count + 1 && after.last == id);
    return 0;
}
