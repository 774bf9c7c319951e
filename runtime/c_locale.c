#include "c_locale.h"

locale_t c_locale_enter(void)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);

    return uselocale(c); /* 0, for want of memory, changes nothing */
}

void c_locale_leave(locale_t before)
{
    locale_t c = uselocale(before);

    if (c != before && c != LC_GLOBAL_LOCALE)
        freelocale(c);
}
