#include "registry.h"
#include "mlir/CAPI/IR.h"
#include <vector>

namespace {
std::vector<tenon::InsertDialect> &registrations() {
  static std::vector<tenon::InsertDialect> list;
  return list;
}
} // namespace

extern "C" void tenonRegisterDialect(tenon::InsertDialect insert) { registrations().push_back(insert); }

extern "C" void tenonInsertDialects(MlirDialectRegistry registry) {
  for (tenon::InsertDialect insert : registrations())
    insert(*unwrap(registry));
}
