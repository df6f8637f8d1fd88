#include "llvm-c/Types.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/OptBisect.h"

namespace {
/// Leaves straight-line strength reduction out.
class WithoutStrengthReduction final : public llvm::OptPassGate {
public:
  bool shouldRunPass(llvm::StringRef pass, llvm::StringRef) const override { return pass != "slsr"; }
  bool isEnabled() const override { return true; }
};
} // namespace

/// The passes of a context go without straight-line strength reduction from now on.
extern "C" void tenonSkipStrengthReduction(LLVMContextRef context) {
  static WithoutStrengthReduction gate;
  llvm::unwrap(context)->setOptPassGate(gate);
}
