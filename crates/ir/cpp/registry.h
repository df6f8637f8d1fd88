// The list of Tenon's dialects in the program. Each dialect's registration file adds itself by a static object.
#pragma once
#include "mlir/IR/DialectRegistry.h"

namespace tenon {
using InsertDialect = void (*)(mlir::DialectRegistry &);
} // namespace tenon

// Weak: a plugin is loaded into programs that have no such list.
extern "C" __attribute__((weak)) void tenonRegisterDialect(tenon::InsertDialect insert);

namespace tenon {
inline bool registerDialect(InsertDialect insert) {
  if (!tenonRegisterDialect)
    return false;
  tenonRegisterDialect(insert);
  return true;
}
} // namespace tenon
