// Registration of the hw dialect, for linking into Tenon and, with TENON_PLUGIN, as a plugin of mlir-opt.
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMTypes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

#include "Dialect.h.inc"
#define GET_ATTRDEF_CLASSES
#include "Attributes.h.inc"
#define GET_TYPEDEF_CLASSES
#include "Types.h.inc"
#define GET_OP_CLASSES
#include "Ops.h.inc"

#include "Dialect.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "Attributes.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "Types.cpp.inc"
#define GET_OP_CLASSES
#include "Ops.cpp.inc"

namespace {
// `[[0, 1], [0, 2]]`: vectors of one length; `rank` is 0 until the first vector tells it.
mlir::ParseResult parseBasis(mlir::AsmParser &parser, unsigned &rank, llvm::SmallVectorImpl<int64_t> &flat) {
  auto vector = [&]() -> mlir::ParseResult {
    unsigned length = 0;
    auto entry = [&]() -> mlir::ParseResult {
      ++length;
      return parser.parseInteger(flat.emplace_back());
    };
    if (parser.parseCommaSeparatedList(mlir::AsmParser::Delimiter::Square, entry))
      return mlir::failure();
    if (length == 0 || (rank != 0 && rank != length))
      return parser.emitError(parser.getCurrentLocation(), "basis vectors must have one length, at least 1");
    rank = length;
    return mlir::success();
  };
  return parser.parseCommaSeparatedList(mlir::AsmParser::Delimiter::Square, vector);
}

void printBasis(mlir::AsmPrinter &printer, unsigned rank, llvm::ArrayRef<int64_t> flat) {
  printer << '[';
  for (size_t index = 0; index < flat.size(); ++index) {
    if (index % rank == 0)
      printer << (index == 0 ? "[" : ", [");
    else
      printer << ", ";
    printer << flat[index];
    if (index % rank == rank - 1)
      printer << ']';
  }
  printer << ']';
}

mlir::ParseResult parseNamed(mlir::AsmParser &parser, llvm::StringRef name, unsigned &rank,
                             llvm::SmallVectorImpl<int64_t> &flat) {
  return mlir::failure(parser.parseKeyword(name) || parser.parseEqual() || parseBasis(parser, rank, flat));
}

// Layouts are printed once, at the top of a module.
struct LayoutAliases : public mlir::OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;
  AliasResult getAlias(mlir::Attribute attribute, llvm::raw_ostream &os) const override {
    if (llvm::isa<tenon::hw::LayoutAttr>(attribute)) {
      os << "layout";
      return AliasResult::FinalAlias;
    }
    if (llvm::isa<tenon::hw::SharedLayoutAttr>(attribute)) {
      os << "shared_layout";
      return AliasResult::FinalAlias;
    }
    return AliasResult::NoAlias;
  }
};
} // namespace

namespace tenon::hw {
mlir::Attribute LayoutAttr::parse(mlir::AsmParser &parser, mlir::Type) {
  unsigned rank = 0;
  llvm::SmallVector<int64_t> reg, lane, warp;
  if (parser.parseLess() || parseNamed(parser, "reg", rank, reg) || parser.parseComma() ||
      parseNamed(parser, "lane", rank, lane) || parser.parseComma() || parseNamed(parser, "warp", rank, warp) ||
      parser.parseGreater())
    return {};
  if (rank == 0) {
    parser.emitError(parser.getCurrentLocation(), "a layout must have a basis vector");
    return {};
  }
  return get(parser.getContext(), rank, reg, lane, warp);
}

void LayoutAttr::print(mlir::AsmPrinter &printer) const {
  printer << "<reg = ";
  printBasis(printer, getRank(), getReg());
  printer << ", lane = ";
  printBasis(printer, getRank(), getLane());
  printer << ", warp = ";
  printBasis(printer, getRank(), getWarp());
  printer << '>';
}

mlir::Attribute SharedLayoutAttr::parse(mlir::AsmParser &parser, mlir::Type) {
  unsigned rank = 0;
  llvm::SmallVector<int64_t> offset;
  if (parser.parseLess() || parseNamed(parser, "offset", rank, offset) || parser.parseGreater())
    return {};
  if (rank == 0) {
    parser.emitError(parser.getCurrentLocation(), "a layout must have a basis vector");
    return {};
  }
  return get(parser.getContext(), rank, offset);
}

void SharedLayoutAttr::print(mlir::AsmPrinter &printer) const {
  printer << "<offset = ";
  printBasis(printer, getRank(), getOffset());
  printer << '>';
}

void HWDialect::initialize() {
  getContext()->getOrLoadDialect<mlir::LLVM::LLVMDialect>();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "Attributes.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "Types.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "Ops.cpp.inc"
      >();
  addInterfaces<LayoutAliases>();
}
} // namespace tenon::hw

#include "registration.h"
TENON_DIALECT("hw", tenon::hw::HWDialect)
