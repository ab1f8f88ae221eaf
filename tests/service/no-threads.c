/* Preloaded into a program: it can start no thread while the file $TN_TEST_NO_THREADS exists. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

typedef int create_fn(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                      void *arg);

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *arg)
{
    const char *path = getenv("TN_TEST_NO_THREADS");
    create_fn *real = (create_fn *)dlsym(RTLD_NEXT, "pthread_create");

    return path && access(path, F_OK) == 0 ? EAGAIN : real(thread, attributes, run, arg);
}
