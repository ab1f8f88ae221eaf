/* CRC-32 as zlib, gzip and Ethernet have it, for noticing bytes that are not what was written. */
#ifndef TN_EVENT_CHECKSUM_H
#define TN_EVENT_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Continues from `crc`, which is 0 at the beginning. */
uint32_t tn_crc32(uint32_t crc, const void *bytes, size_t n);

#endif
