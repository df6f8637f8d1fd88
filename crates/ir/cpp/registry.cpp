#include "registry.h"
#include "mlir/CAPI/IR.h"
#include <vector>

namespace {
std::vector<tenon::InsertDialect> &registrations() {
  static std::vector<tenon::InsertDialect> list;
  return list;
}
} // namespace

tenon::DialectRegistration::DialectRegistration(InsertDialect insert) { registrations().push_back(insert); }

extern "C" void tenonInsertDialects(MlirDialectRegistry registry) {
  for (tenon::InsertDialect insert : registrations())
    insert(*unwrap(registry));
}
