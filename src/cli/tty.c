#include "cli/tty.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>

#include "base/fs.h"

static const int heard[] = {SIGWINCH, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT};

static int set_raw(struct tty *t)
{
    struct termios raw = t->before;

    cfmakeraw(&raw);
    t->raw = tcsetattr(t->fd, TCSADRAIN, &raw) == 0;
    return t->raw ? 0 : -1;
}

static void set_ordinary(struct tty *t)
{
    if (t->raw)
        tcsetattr(t->fd, TCSADRAIN, &t->before);
    t->raw = false;
}

int tty_open(struct tty *t, struct tn_error *err)
{
    sigset_t set;

    *t = (struct tty){.fd = STDIN_FILENO, .signals = -1};
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(t->fd, &t->before) < 0)
        return tn_fail(err, TN_E_INVALID,
                       "this needs a terminal; for a single command there is: tendon exec");
    sigemptyset(&set);
    for (size_t i = 0; i < TN_COUNT(heard); i++)
        sigaddset(&set, heard[i]);
    pthread_sigmask(SIG_BLOCK, &set, &t->mask_before);
    t->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (t->signals < 0 || set_raw(t) < 0) {
        tn_fail_errno(err, errno, "the terminal");
        tty_close(t);
        return -1;
    }
    return 0;
}

int tty_write(struct tty *t, const char *bytes, size_t n, struct tn_error *err)
{
    undo_watch(&t->undo, bytes, n);
    return tn_fs_write(STDOUT_FILENO, bytes, n, err);
}

void tty_close(struct tty *t)
{
    tn_autobuf struct tn_buf reset = TN_BUF_INIT(4096);

    undo_put(&t->undo, &reset);
    if (t->raw)
        tn_fs_write(STDOUT_FILENO, tn_buf_str(&reset), reset.len, NULL);
    set_ordinary(t);
    if (t->signals >= 0)
        pthread_sigmask(SIG_SETMASK, &t->mask_before, NULL);
    tn_close(TN_TAKE_FD(t->signals));
}

void tty_size(const struct tty *t, int *columns, int *rows)
{
    struct winsize size;

    *columns = 80;
    *rows = 24;
    if (ioctl(t->fd, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row) {
        *columns = size.ws_col;
        *rows = size.ws_row;
    }
}

enum tty_signal tty_signal(struct tty *t, int *number)
{
    struct signalfd_siginfo info;

    if (read(t->signals, &info, sizeof info) != sizeof info)
        return TTY_NOTHING;
    *number = (int)info.ssi_signo;
    switch (*number) {
    case SIGTSTP:
        set_ordinary(t);
        raise(SIGSTOP);
        set_raw(t);
        return TTY_RESIZED;
    case SIGCONT:
        set_raw(t);
        return TTY_RESIZED;
    case SIGWINCH:
        return TTY_RESIZED;
    default:
        return TTY_END;
    }
}
