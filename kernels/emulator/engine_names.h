// Under which names the engine has what g++ calls itself. Not inline PTX, as the asm statements of a rung are.
#pragma once
#pragma GCC system_header

#ifndef EMULATOR_ENGINE
// Copies and fillings are accesses like any other: the engine has functions for them, which g++ itself calls as well.
extern "C" {
void* memcpy(void*, const void*, __SIZE_TYPE__) noexcept __asm__("emulator_memcpy");
void* memmove(void*, const void*, __SIZE_TYPE__) noexcept __asm__("emulator_memmove");
void* memset(void*, int, __SIZE_TYPE__) noexcept __asm__("emulator_memset");
void* emulator_memcpy(void*, const void*, __SIZE_TYPE__) noexcept;
void* emulator_memmove(void*, const void*, __SIZE_TYPE__) noexcept;
void* emulator_memset(void*, int, __SIZE_TYPE__) noexcept;
}
#endif
extern "C" void* emulator_copy_unseen(void*, const void*, __SIZE_TYPE__) noexcept __asm__("memcpy");
