// `custom<Keyword>($attribute)`: a string attribute printed as a bare word.
#pragma once
#include "mlir/IR/OpImplementation.h"

namespace {
mlir::ParseResult parseKeyword(mlir::OpAsmParser &parser, mlir::StringAttr &attribute) {
  llvm::StringRef keyword;
  if (parser.parseKeyword(&keyword))
    return mlir::failure();
  attribute = mlir::StringAttr::get(parser.getContext(), keyword);
  return mlir::success();
}

void printKeyword(mlir::OpAsmPrinter &printer, mlir::Operation *, mlir::StringAttr attribute) {
  printer << attribute.getValue();
}
} // namespace
