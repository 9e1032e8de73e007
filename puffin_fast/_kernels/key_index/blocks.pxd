from libc.stdint cimport uint32_t, uint64_t

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

cdef pf_key_form form_of(object given) except *
