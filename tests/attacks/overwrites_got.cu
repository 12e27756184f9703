// overwrites_got: points the timer's imported clock, in the table of its library, to a clock that runs at half speed.
// Class: timer.
// Caught by: runtime.
#include <elf.h>
#include <link.h>
#include <sys/mman.h>

#include <chrono>
#include <cstring>

#include "attack.cuh"

constexpr const char* CLOCK = "_ZNSt6chrono3_V212steady_clock3nowEv";

std::chrono::steady_clock::time_point half_speed() {
  static const auto begin = std::chrono::steady_clock::now();
  return begin + (std::chrono::steady_clock::now() - begin) / 2;
}

int patch(dl_phdr_info* library, size_t, void*) {
  if (std::strstr(library->dlpi_name, "libnvbench") == nullptr) {
    return 0;
  }
  const ElfW(Rela) * relocations[2] = {};
  size_t bytes[2] = {};
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    if (library->dlpi_phdr[i].p_type != PT_DYNAMIC) {
      continue;
    }
    auto entry = reinterpret_cast<const ElfW(Dyn)*>(library->dlpi_addr + library->dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      switch (entry->d_tag) {
        case DT_JMPREL:
          relocations[0] = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr);
          break;
        case DT_PLTRELSZ:
          bytes[0] = entry->d_un.d_val;
          break;
        case DT_RELA:
          relocations[1] = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr);
          break;
        case DT_RELASZ:
          bytes[1] = entry->d_un.d_val;
          break;
        case DT_SYMTAB:
          symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
          break;
        case DT_STRTAB:
          names = reinterpret_cast<const char*>(entry->d_un.d_ptr);
          break;
      }
    }
  }
  for (int table = 0; table < 2; ++table) {
    for (size_t i = 0; i < bytes[table] / sizeof(ElfW(Rela)); ++i) {
      const ElfW(Rela) & one = relocations[table][i];
      if (std::strcmp(names + symbols[ELF64_R_SYM(one.r_info)].st_name, CLOCK) == 0) {
        uintptr_t place = library->dlpi_addr + one.r_offset;
        mprotect(reinterpret_cast<void*>(place & ~uintptr_t{4095}), 4096, PROT_READ | PROT_WRITE);
        *reinterpret_cast<void**>(place) = reinterpret_cast<void*>(half_speed);
      }
    }
  }
  return 0;
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static bool patched = false;
  if (under_timing(g) && !patched) {
    patched = true;
    dl_iterate_phdr(patch, nullptr);
  }
  return honest(g, stream);
}

EXPORT_SGEMM(run)
