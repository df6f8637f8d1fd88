// The upstream dialects, passes and translations that Tenon uses. Registering all of MLIR makes the program several times as large, and the
// memory of a short compilation is then mostly code that registers what is never used.
//
// The functions are declared here, since their headers bring whole dialects with them, which takes a compiler half a minute.
#include "mlir-c/Dialect/Arith.h"
#include "mlir-c/Dialect/ControlFlow.h"
#include "mlir-c/Dialect/Func.h"
#include "mlir-c/Dialect/GPU.h"
#include "mlir-c/Dialect/LLVM.h"
#include "mlir-c/Dialect/Math.h"
#include "mlir-c/Dialect/MemRef.h"
#include "mlir-c/Dialect/NVVM.h"
#include "mlir-c/Dialect/SCF.h"
#include "mlir-c/Dialect/UB.h"
#include "mlir-c/Dialect/Vector.h"
#include "mlir-c/IR.h"
#include "mlir/CAPI/IR.h"
#include "mlir/Pass/Pass.h"

namespace mlir {
std::unique_ptr<Pass> createArithToLLVMConversionPass();
std::unique_ptr<Pass> createCanonicalizerPass();
std::unique_ptr<Pass> createConvertControlFlowToLLVMPass();
std::unique_ptr<Pass> createConvertMathToLLVMPass();
std::unique_ptr<Pass> createConvertToLLVMPass();
std::unique_ptr<Pass> createConvertVectorToLLVMPass();
std::unique_ptr<Pass> createCSEPass();
std::unique_ptr<Pass> createLoopInvariantCodeMotionPass();
std::unique_ptr<Pass> createReconcileUnrealizedCastsPass();
std::unique_ptr<Pass> createSCFToControlFlowPass();
std::unique_ptr<Pass> createSymbolDCEPass();
void registerBuiltinDialectTranslation(DialectRegistry &registry);
void registerConvertMathToLLVMInterface(DialectRegistry &registry);
void registerGPUDialectTranslation(DialectRegistry &registry);
void registerLLVMDialectTranslation(DialectRegistry &registry);
void registerNVVMDialectTranslation(DialectRegistry &registry);
namespace arith {
void registerConvertArithToLLVMInterface(DialectRegistry &registry);
}
namespace cf {
void registerConvertControlFlowToLLVMInterface(DialectRegistry &registry);
}
namespace LLVM {
std::unique_ptr<Pass> createDIScopeForLLVMFuncOpPass();
}
namespace ub {
void registerConvertUBToLLVMInterface(DialectRegistry &registry);
}
namespace vector {
void registerConvertVectorToLLVMInterface(DialectRegistry &registry);
}
} // namespace mlir

// Inserts the dialects with their conversions to the LLVM dialect and their translations to LLVM IR.
extern "C" void tenonInsertUpstreamDialects(MlirDialectRegistry wrapped) {
  for (MlirDialectHandle handle :
       {mlirGetDialectHandle__arith__(), mlirGetDialectHandle__cf__(), mlirGetDialectHandle__func__(),
        mlirGetDialectHandle__gpu__(), mlirGetDialectHandle__llvm__(), mlirGetDialectHandle__math__(),
        mlirGetDialectHandle__memref__(), mlirGetDialectHandle__nvvm__(), mlirGetDialectHandle__scf__(),
        mlirGetDialectHandle__ub__(), mlirGetDialectHandle__vector__()})
    mlirDialectHandleInsertDialect(handle, wrapped);
  mlir::DialectRegistry &registry = *unwrap(wrapped);
  mlir::arith::registerConvertArithToLLVMInterface(registry);
  mlir::cf::registerConvertControlFlowToLLVMInterface(registry);
  mlir::registerConvertMathToLLVMInterface(registry);
  mlir::ub::registerConvertUBToLLVMInterface(registry);
  mlir::vector::registerConvertVectorToLLVMInterface(registry);
  mlir::registerBuiltinDialectTranslation(registry);
  mlir::registerGPUDialectTranslation(registry);
  mlir::registerLLVMDialectTranslation(registry);
  mlir::registerNVVMDialectTranslation(registry);
}

// Makes the passes known by name, for textual pipelines.
extern "C" void tenonRegisterUpstreamPasses() {
  using Make = std::unique_ptr<mlir::Pass> (*)();
  const Make all[] = {
      mlir::createArithToLLVMConversionPass,
      mlir::createCanonicalizerPass,
      mlir::createConvertControlFlowToLLVMPass,
      mlir::createConvertMathToLLVMPass,
      mlir::createConvertToLLVMPass,
      mlir::createConvertVectorToLLVMPass,
      mlir::createCSEPass,
      mlir::createLoopInvariantCodeMotionPass,
      mlir::createReconcileUnrealizedCastsPass,
      mlir::createSCFToControlFlowPass,
      mlir::createSymbolDCEPass,
      mlir::LLVM::createDIScopeForLLVMFuncOpPass,
  };
  for (Make make : all)
    mlir::registerPass(make);
}
