/* Sorting without allocation: glibc's qsort takes memory for larger arrays. */
#ifndef DSGD_SORT_H
#define DSGD_SORT_H

#include <stddef.h>

/* Ascending.  No NaN. */
void sort_doubles(size_t n, double *x);

#endif
