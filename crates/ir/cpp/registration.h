// Makes a dialect known: to the sessions of the program that it is linked into, and to mlir-opt where the same object is a plugin.
#pragma once
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "registry.h"

#define TENON_DIALECT(NAME, CLASS)                                                                                     \
  static void insertDialect(mlir::DialectRegistry &registry) { registry.insert<CLASS>(); }                             \
  static const bool isRegistered = tenon::registerDialect(insertDialect);                                              \
  extern "C" __attribute__((weak, visibility("default")))::mlir::DialectPluginLibraryInfo mlirGetDialectPluginInfo() { \
    return {MLIR_PLUGIN_API_VERSION, NAME, "0.1", [](mlir::DialectRegistry *registry) { insertDialect(*registry); }};  \
  }
