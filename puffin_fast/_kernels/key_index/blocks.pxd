from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef extern from "key_index/blocks.h" nogil:
    ctypedef struct pf_key_form:
        int b
        int t
        int r
        int o
        uint32_t seal
    uint64_t pf_key_start(const pf_key_form* form, uint64_t i, uint64_t n)
    uint64_t pf_key_block(uint64_t hash, int shift)
    uint32_t pf_key_seed(const pf_key_form* form, uint64_t number, uint64_t n)
    int pf_key_unpack(const pf_key_form* form, const uint8_t* block, size_t size, uint64_t n, uint64_t number,
                      uint64_t n_rows, uint64_t* hashes, uint32_t* ordinals)

cdef pf_key_form form_of(object given) except *
cdef int check_block(const pf_key_form* form, const uint8_t* data, size_t n_bytes, uint64_t base, const uint8_t* before,
                     size_t number, const uint8_t** block, size_t* size, size_t* n) noexcept nogil
