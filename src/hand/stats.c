#include "hand/stats.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>

#include "base/clock.h"
#include "base/proc.h"

enum { BLOCK_BYTES = 512 }; /* in which the kernel tells what was read and written */

static double cpu_percent(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int64_t last_wall, last_cpu;
    static double last_percent;
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    int64_t cpu = t.tv_sec * TN_SECOND + t.tv_nsec, wall = tn_now();
    pthread_mutex_lock(&lock);
    if (last_wall == 0 || wall - last_wall > 100 * TN_MILLI) {
        if (last_wall)
            last_percent = 100.0 * (double)(cpu - last_cpu) / (double)(wall - last_wall);
        last_wall = wall;
        last_cpu = cpu;
    }
    double percent = last_percent;
    pthread_mutex_unlock(&lock);
    return percent;
}

static void read_small(const char *path, char *to, size_t size)
{
    tn_autofile FILE *f = fopen(path, "re");
    size_t n = f ? fread(to, 1, size - 1, f) : 0;
    to[n] = '\0';
}

static void write_memory(struct tn_jw *w)
{
    char text[256];
    unsigned long long pages[2] = {0}; /* all, and those in memory */
    long long page = sysconf(_SC_PAGESIZE);
    struct sysinfo info;

    read_small("/proc/self/statm", text, sizeof text);
    tn_proc_numbers(text, 0, pages, 2);
    long long vms = (long long)pages[0] * page, rss = (long long)pages[1] * page;
    sysinfo(&info);
    double total = (double)info.totalram * info.mem_unit;
    tn_jw_key(w, "memory");
    tn_jw_object(w);
    tn_jw_kint(w, "rss", rss);
    tn_jw_kint(w, "vms", vms);
    tn_jw_kdouble(w, "percent", total > 0 ? 100.0 * (double)rss / total : 0);
    tn_jw_object_end(w);
}

static void write_disk(struct tn_jw *w)
{
    struct statvfs fs = {0};

    statvfs("/", &fs);
    int64_t unit = (int64_t)fs.f_frsize, total = (int64_t)fs.f_blocks * unit;
    int64_t used = (int64_t)(fs.f_blocks - fs.f_bfree) * unit,
            free_bytes = (int64_t)fs.f_bavail * unit;
    tn_jw_key(w, "disk");
    tn_jw_object(w);
    tn_jw_kint(w, "total", total);
    tn_jw_kint(w, "used", used);
    tn_jw_kint(w, "free", free_bytes);
    tn_jw_kdouble(w, "percent",
                  used + free_bytes > 0 ? 100.0 * (double)used / (double)(used + free_bytes) : 0);
    tn_jw_object_end(w);
}

static void write_io(struct tn_jw *w)
{
    struct rusage usage; /* /proc/self/io belongs to root where this process is PID 1 */

    getrusage(RUSAGE_SELF, &usage);
    tn_jw_key(w, "io");
    tn_jw_object(w);
    tn_jw_kint(w, "read_bytes", (int64_t)usage.ru_inblock * BLOCK_BYTES);
    tn_jw_kint(w, "write_bytes", (int64_t)usage.ru_oublock * BLOCK_BYTES);
    tn_jw_object_end(w);
}

void tn_stats_write(struct tn_jw *w)
{
    tn_jw_object(w);
    tn_jw_kdouble(w, "cpu_percent", cpu_percent());
    write_memory(w);
    write_disk(w);
    write_io(w);
    tn_jw_object_end(w);
}
