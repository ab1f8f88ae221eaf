/* What /readyz tells: whether the service can do its work, asked at most once a second. */
#ifndef TN_SERVICE_HEALTH_H
#define TN_SERVICE_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

struct tn_service;

struct health;
struct health *health_new(struct tn_service *s);
/* Waits until nobody examines any more; false: somebody still does at the deadline. */
bool health_end(struct health *h, int64_t deadline);
void health_free(struct health *h);

#endif
