/* The terminal of a shell: its two sides, its modes, its size. */
#include <fcntl.h>
#include <sys/ioctl.h>

#include "hand/shell/process-internal.h"

int shell_open_terminal(struct tn_shell *sh, const struct tn_shell_options *o, struct tn_error *err)
{
    sh->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (sh->master < 0)
        return tn_fail_errno(err, errno, "open a terminal (/dev/ptmx)");
    if (unlockpt(sh->master) < 0)
        return tn_fail_errno(err, errno, "unlock the terminal");
    sh->slave = ioctl(sh->master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (sh->slave < 0)
        return tn_fail_errno(err, errno, "open the terminal's other side");
    if (o->switch_user && fchown(sh->slave, o->uid, (gid_t)-1) < 0)
        return tn_fail_errno(err, errno, "give the terminal to user %d", (int)o->uid);
    if (tcgetattr(sh->slave, &sh->modes) < 0)
        return tn_fail_errno(err, errno, "terminal modes");
    sh->modes.c_iflag |= IUTF8;
    sh->modes.c_iflag &= ~(tcflag_t)(IXON | IXOFF); /* a stray Ctrl-S must not stop the output */
    tn_shell_calm_terminal(sh);
    tn_shell_resize(sh, o->columns, o->rows);
    return 0;
}

void tn_shell_let_flow(struct tn_shell *sh)
{
    tcflow(sh->slave, TCOON);
}

/* Field by field: what lies between them is not part of the modes. */
static bool same_modes(const struct termios *a, const struct termios *b)
{
    return a->c_iflag == b->c_iflag && a->c_oflag == b->c_oflag && a->c_cflag == b->c_cflag &&
           a->c_lflag == b->c_lflag && a->c_line == b->c_line &&
           memcmp(a->c_cc, b->c_cc, sizeof a->c_cc) == 0;
}

void tn_shell_calm_terminal(struct tn_shell *sh)
{
    struct termios now;

    tn_shell_let_flow(sh);
    if (tcgetattr(sh->slave, &now) == 0 && !same_modes(&now, &sh->modes))
        tcsetattr(sh->slave, TCSANOW, &sh->modes);
}

void tn_shell_resize(struct tn_shell *sh, int columns, int rows)
{
    struct winsize size = {.ws_col = (unsigned short)columns, .ws_row = (unsigned short)rows};
    ioctl(sh->master, TIOCSWINSZ, &size);
}

pid_t tn_shell_foreground(const struct tn_shell *sh)
{
    return tcgetpgrp(sh->master);
}
