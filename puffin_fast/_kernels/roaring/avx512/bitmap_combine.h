/* Set operations on bitmap containers with AVX-512: the compiler vectorises the plain loops. */
#ifndef PF_AVX512_BITMAP_COMBINE_H
#define PF_AVX512_BITMAP_COMBINE_H

PF_AVX512 static uint32_t pf_bitmap_unite_avx512(const uint8_t *const *bitmaps, size_t n, uint8_t *out) {
    pf_bitmap_unite_body(bitmaps, n, out);
    return pf_bitmap_cardinality_avx512(out);
}

PF_AVX512 static uint32_t pf_bitmap_combine_avx512(int op, const uint8_t *a, const uint8_t *b, uint8_t *out) {
    pf_bitmap_combine_body(op, a, b, out);
    return pf_bitmap_cardinality_avx512(out);
}

#endif
