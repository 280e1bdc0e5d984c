/* BLAKE2b, RFC 7693, of 16 bytes: for `_digests.c` and what it includes. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { DIGEST = 16, BLOCK = 128 };

typedef struct {
    uint64_t chain[8], count;
    unsigned char block[BLOCK];
    size_t filled;
} Blake;

static const uint64_t START[8] = {
    0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu, 0x3c6ef372fe94f82bu, 0xa54ff53a5f1d36f1u,
    0x510e527fade682d1u, 0x9b05688c2b3e6c1fu, 0x1f83d9abfb41bd6bu, 0x5be0cd19137e2179u,
};

static const unsigned char SIGMA[12][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
};

static inline uint64_t
rotated(uint64_t word, int by)
{
    return word >> by | word << (64 - by);
}

static inline uint64_t
little(const unsigned char *at)
{
    uint64_t word = 0;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(&word, at, sizeof word); /* no compiler makes one load of the loop below */
#else
    int i;
    for (i = 7; i >= 0; i--)
        word = word << 8 | at[i];
#endif
    return word;
}

static void
compress(Blake *blake, const unsigned char *block, int is_last)
{
    uint64_t v[16], m[16];
    int i, round;
    for (i = 0; i < 16; i++)
        m[i] = little(block + 8 * i);
    for (i = 0; i < 8; i++) {
        v[i] = blake->chain[i];
        v[i + 8] = START[i];
    }
    v[12] ^= blake->count;
    if (is_last)
        v[14] = ~v[14];
#define MIX(a, b, c, d, x, y)                                                                      \
    do {                                                                                           \
        v[a] += v[b] + x;                                                                          \
        v[d] = rotated(v[d] ^ v[a], 32);                                                           \
        v[c] += v[d];                                                                              \
        v[b] = rotated(v[b] ^ v[c], 24);                                                           \
        v[a] += v[b] + y;                                                                          \
        v[d] = rotated(v[d] ^ v[a], 16);                                                           \
        v[c] += v[d];                                                                              \
        v[b] = rotated(v[b] ^ v[c], 63);                                                           \
    } while (0)
    /* Unrolled, the compiler knows each round's order of words. */
#pragma GCC unroll 12
    for (round = 0; round < 12; round++) {
        const unsigned char *s = SIGMA[round];
        MIX(0, 4, 8, 12, m[s[0]], m[s[1]]);
        MIX(1, 5, 9, 13, m[s[2]], m[s[3]]);
        MIX(2, 6, 10, 14, m[s[4]], m[s[5]]);
        MIX(3, 7, 11, 15, m[s[6]], m[s[7]]);
        MIX(0, 5, 10, 15, m[s[8]], m[s[9]]);
        MIX(1, 6, 11, 12, m[s[10]], m[s[11]]);
        MIX(2, 7, 8, 13, m[s[12]], m[s[13]]);
        MIX(3, 4, 9, 14, m[s[14]], m[s[15]]);
    }
#undef MIX
    for (i = 0; i < 8; i++)
        blake->chain[i] ^= v[i] ^ v[i + 8];
}

static void
begin(Blake *blake)
{
    memcpy(blake->chain, START, sizeof START);
    blake->chain[0] ^= 0x01010000u ^ DIGEST;
    blake->count = 0;
    blake->filled = 0;
}

static void
update(Blake *blake, const void *data, size_t size)
{
    const unsigned char *at = data;
    while (size > 0) {
        size_t part;
        if (blake->filled == BLOCK) { /* and more follows, so it is not the last */
            blake->count += BLOCK;
            compress(blake, blake->block, 0);
            blake->filled = 0;
        }
        part = BLOCK - blake->filled < size ? BLOCK - blake->filled : size;
        memcpy(blake->block + blake->filled, at, part);
        blake->filled += part;
        at += part;
        size -= part;
    }
}

static PyObject *
finished(Blake *blake)
{
    unsigned char digest[DIGEST];
    int i;
    blake->count += blake->filled;
    memset(blake->block + blake->filled, 0, BLOCK - blake->filled);
    compress(blake, blake->block, 1);
    for (i = 0; i < DIGEST; i++)
        digest[i] = (unsigned char)(blake->chain[i / 8] >> 8 * (i % 8));
    return PyBytes_FromStringAndSize((char *)digest, DIGEST);
}
