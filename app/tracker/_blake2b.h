/* BLAKE2b, RFC 7693, with digests of 16 bytes and no key, as `hashlib.blake2b(digest_size=16)` makes
 * them: from C that takes half of what it takes through Python's objects. */
#include <stdint.h>
#include <string.h>

#define BLOCK 128
#define ROTATED(word, bits) ((word) >> (bits) | (word) << (64 - (bits)))
#define MIX(a, b, c, d, one, other)                                                               \
    v##a += v##b + m[one], v##d = ROTATED(v##d ^ v##a, 32);                                       \
    v##c += v##d, v##b = ROTATED(v##b ^ v##c, 24);                                                \
    v##a += v##b + m[other], v##d = ROTATED(v##d ^ v##a, 16);                                     \
    v##c += v##d, v##b = ROTATED(v##b ^ v##c, 63);
#define ROUND(a, b, c, d, e, f, g, h, i, j, k, l, n, o, p, q)                                     \
    MIX(0, 4, 8, 12, a, b) MIX(1, 5, 9, 13, c, d) MIX(2, 6, 10, 14, e, f) MIX(3, 7, 11, 15, g, h) \
    MIX(0, 5, 10, 15, i, j) MIX(1, 6, 11, 12, k, l) MIX(2, 7, 8, 13, n, o) MIX(3, 4, 9, 14, p, q)

#define ROUNDS(ROUND)                                                                            \
    ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)                                  \
    ROUND(14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3)                                  \
    ROUND(11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4)                                  \
    ROUND(7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8)                                  \
    ROUND(9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13)                                  \
    ROUND(2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9)                                  \
    ROUND(12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11)                                  \
    ROUND(13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10)                                  \
    ROUND(6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5)                                  \
    ROUND(10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0)                                  \
    ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)                                  \
    ROUND(14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3)

typedef struct {
    uint64_t state[8], count;
    size_t used; /* bytes of the block */
    uint8_t block[BLOCK];
} Blake2b;

static const uint64_t BEGINNING[8] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
};

static void
compress_by_one(Blake2b *digest, const uint8_t *block, int is_last)
{
    const uint64_t *h = digest->state, *b = BEGINNING;
    uint64_t m[16], v0 = h[0], v1 = h[1], v2 = h[2], v3 = h[3], v4 = h[4], v5 = h[5], v6 = h[6];
    uint64_t v7 = h[7], v8 = b[0], v9 = b[1], v10 = b[2], v11 = b[3], v12 = b[4] ^ digest->count;
    uint64_t v13 = b[5], v14 = is_last ? ~b[6] : b[6], v15 = b[7];
    int place;
    memcpy(m, block, BLOCK);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (place = 0; place < 16; place++)
        m[place] = __builtin_bswap64(m[place]);
#endif
    ROUNDS(ROUND)
    const uint64_t low[8] = {v0, v1, v2, v3, v4, v5, v6, v7};
    const uint64_t high[8] = {v8, v9, v10, v11, v12, v13, v14, v15};
    for (place = 0; place < 8; place++)
        digest->state[place] ^= low[place] ^ high[place];
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
/* Four words at once, where the processor can: in less than half of the instructions. */
typedef uint64_t Words __attribute__((vector_size(32)));
typedef uint8_t Octets __attribute__((vector_size(32)));
#define OCTETS(start, a, b, c, d, e, f, g, h)                                                     \
    start + a, start + b, start + c, start + d, start + e, start + f, start + g, start + h
#define MOVED(words, ...)                                                                         \
    (Words) __builtin_shuffle((Octets)(words),                                                    \
                              (Octets){OCTETS(0, __VA_ARGS__), OCTETS(8, __VA_ARGS__),            \
                                       OCTETS(16, __VA_ARGS__), OCTETS(24, __VA_ARGS__)})
#define MIX_FOUR(one, other)                                                                      \
    a += b + (one), d = ROTATED(d ^ a, 32);                                                       \
    c += d, b = MOVED(b ^ c, 3, 4, 5, 6, 7, 0, 1, 2);                                             \
    a += b + (other), d = MOVED(d ^ a, 2, 3, 4, 5, 6, 7, 0, 1);                                   \
    c += d, b = ROTATED(b ^ c, 63);
#define TURN(first, second, third)                                                                \
    b = __builtin_shuffle(b, (Words)first), c = __builtin_shuffle(c, (Words)second);              \
    d = __builtin_shuffle(d, (Words)third);
#define LEFT {1, 2, 3, 0}
#define HALF {2, 3, 0, 1}
#define RIGHT {3, 0, 1, 2}
#define ROUND_OF_FOUR(s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15)       \
    MIX_FOUR(((Words){m[s0], m[s2], m[s4], m[s6]}), ((Words){m[s1], m[s3], m[s5], m[s7]}))        \
    TURN(LEFT, HALF, RIGHT)                                                                       \
    MIX_FOUR(((Words){m[s8], m[s10], m[s12], m[s14]}), ((Words){m[s9], m[s11], m[s13], m[s15]}))  \
    TURN(RIGHT, HALF, LEFT)

__attribute__((target("avx2"))) static void
compress_by_four(Blake2b *digest, const uint8_t *block, int is_last)
{
    uint64_t m[16];
    Words a, b, c, d, low, high;
    memcpy(m, block, BLOCK);
    memcpy(&low, digest->state, 32), memcpy(&high, digest->state + 4, 32);
    memcpy(&c, BEGINNING, 32), memcpy(&d, BEGINNING + 4, 32);
    a = low, b = high;
    d ^= (Words){digest->count, 0, is_last ? ~(uint64_t)0 : 0, 0};
    ROUNDS(ROUND_OF_FOUR)
    low ^= a ^ c, high ^= b ^ d;
    memcpy(digest->state, &low, 32), memcpy(digest->state + 4, &high, 32);
}
#define HAS_FOUR __builtin_cpu_supports("avx2")
#else
#define HAS_FOUR 0
#define compress_by_four compress_by_one
#endif

static int is_plain = 0; /* as on another processor; a test sets it */

static void
compress(Blake2b *digest, const uint8_t *block, int is_last)
{
    if (HAS_FOUR && !is_plain)
        compress_by_four(digest, block, is_last);
    else
        compress_by_one(digest, block, is_last);
}

static void
begin_digest(Blake2b *digest)
{
    memcpy(digest->state, BEGINNING, sizeof BEGINNING);
    digest->state[0] ^= 0x01010000 ^ 16;
    digest->count = digest->used = 0;
}

static void
feed_digest(Blake2b *digest, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    while (size) {
        size_t room = BLOCK - digest->used;
        if (room == 0) { /* and more comes, so it is not the last */
            digest->count += BLOCK;
            compress(digest, digest->block, 0);
            digest->used = 0;
            continue;
        }
        room = size < room ? size : room;
        memcpy(digest->block + digest->used, bytes, room);
        digest->used += room, bytes += room, size -= room;
    }
}

static void
end_digest(Blake2b *digest, uint8_t *made)
{
    int place;
    memset(digest->block + digest->used, 0, BLOCK - digest->used);
    digest->count += digest->used;
    compress(digest, digest->block, 1);
    for (place = 0; place < 16; place++)
        made[place] = (uint8_t)(digest->state[place / 8] >> 8 * (place % 8));
}
