/* What libfaketime leaves out: the timed wait of C11 threads, which librdkafka uses. Like the kernel's, it ends when the
 * clock shows the time given, so a clock that is set back while a thread waits makes it wait longer. */
#include <errno.h>
#include <pthread.h>
#include <threads.h>
#include <time.h>

#define SLICE_NS 20000000L
#define SECOND_NS 1000000000L

int cnd_timedwait(cnd_t *cond, mtx_t *mutex, const struct timespec *until)
{
    for (;;) {
        struct timespec slice;
        timespec_get(&slice, TIME_UTC);
        if (slice.tv_sec > until->tv_sec || (slice.tv_sec == until->tv_sec && slice.tv_nsec >= until->tv_nsec))
            return thrd_timedout;
        slice.tv_nsec += SLICE_NS;
        if (slice.tv_nsec >= SECOND_NS) {
            slice.tv_nsec -= SECOND_NS;
            slice.tv_sec++;
        }
        if (slice.tv_sec > until->tv_sec || (slice.tv_sec == until->tv_sec && slice.tv_nsec > until->tv_nsec))
            slice = *until;
        /* glibc's two kinds of condition variables and mutexes are the same. */
        int result = pthread_cond_timedwait((pthread_cond_t *)cond, (pthread_mutex_t *)mutex, &slice);
        if (result != ETIMEDOUT)
            return result == 0 ? thrd_success : thrd_error;
    }
}
