// The list of Tenon's dialects in the program. Each dialect's registration file adds itself by a static object.
#pragma once
#include "mlir/IR/DialectRegistry.h"

namespace tenon {
using InsertDialect = void (*)(mlir::DialectRegistry &);

struct DialectRegistration {
  explicit DialectRegistration(InsertDialect insert);
};
} // namespace tenon
