"""What the kernel says of a process, whatever bytes its name is made of."""


def stat_of(pid):
    """The words of /proc/PID/stat behind the name: state, parent, ... OSError when there is no such process."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].decode().split()
