#include "cli/browser.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/child.h"
#include "base/fs.h"

#define START_SECONDS 5
#define PAGE_NAME "tendon-open-"
#define PAGE_END ".html"
#define PAGE_SECONDS "15" /* for a browser that is just starting */
#define STALE_SECONDS 60  /* its remover was killed */

enum { PAGE_MAX = 64 << 10 };

static void put_escaped(struct tn_buf *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("&<>\"'", *text))
            tn_buf_printf(out, "&#%d;", *text);
        else
            tn_buf_putc(out, *text);
    }
}

/* What an earlier one left. */
static void remove_stale(const char *directory)
{
    DIR *dir = opendir(directory);
    struct dirent *entry;
    struct stat st;

    while (dir && (entry = readdir(dir))) {
        if (fnmatch(PAGE_NAME "??????" PAGE_END, entry->d_name, 0) == 0 &&
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
            st.st_mtime < time(NULL) - STALE_SECONDS)
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir)
        closedir(dir);
}

/* The path of a new page that leads on, or NULL. */
static char *make_page(const char *url)
{
    const char *run = getenv("XDG_RUNTIME_DIR");
    const char *directory = run && *run == '/' ? run : "/tmp";
    tn_autofree char *path = tn_asprintf("%s/" PAGE_NAME "XXXXXX" PAGE_END, directory);
    tn_autobuf struct tn_buf page = TN_BUF_INIT(PAGE_MAX);

    remove_stale(directory);
    tn_autofd int fd = mkostemps(path, strlen(PAGE_END), O_CLOEXEC); /* of mode 0600 */
    if (fd < 0)
        return NULL;
    tn_buf_puts(&page, "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" "
                       "content=\"no-referrer\"><meta http-equiv=\"refresh\" content=\"0;url=");
    put_escaped(&page, url);
    tn_buf_puts(&page, "\">\n");
    if (tn_buf_ok(&page) && tn_fs_write(fd, page.data, page.len, NULL) == 0)
        return TN_TAKE_PTR(path);
    unlink(path);
    return NULL;
}

/* The page outlives this program, but not for long. */
static void open_page(const char *path)
{
    static const char script[] =
        "xdg-open \"file://$0\"; sleep " PAGE_SECONDS "; exec rm -f -- \"$0\"";
    const char *const argv[] = {"/bin/sh", "-c", script, path, NULL};
    tn_autochild struct tn_child *child =
        tn_child_start(&(struct tn_child_spec){.argv = argv, .session = true}, NULL);

    if (!child)
        unlink(path);
}

static void open_address(const char *url)
{
    const char *const argv[] = {"xdg-open", url, NULL};
    tn_autochild struct tn_child *child =
        tn_child_start(&(struct tn_child_spec){.argv = argv, .session = true}, NULL);

    if (child)
        tn_child_wait(child, tn_deadline_in(START_SECONDS), NULL, NULL);
}

void browser_open(const char *url, bool secret)
{
    if (!getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY"))
        return;
    if (!secret) {
        open_address(url);
        return;
    }
    tn_autofree char *page = make_page(url);
    if (page)
        open_page(page);
}
