// Makes a dialect known: to the sessions of the program that it is linked into, or to mlir-opt when built as a plugin.
#pragma once
#ifdef TENON_PLUGIN
#include "mlir/Tools/Plugins/DialectPlugin.h"
#define TENON_DIALECT(NAME, CLASS)                                                                                     \
  extern "C" __attribute__((weak, visibility("default")))::mlir::DialectPluginLibraryInfo mlirGetDialectPluginInfo() { \
    return {MLIR_PLUGIN_API_VERSION, NAME, "0.1", [](mlir::DialectRegistry *registry) { registry->insert<CLASS>(); }}; \
  }
#else
#include "registry.h"
#define TENON_DIALECT(NAME, CLASS)                                                                                     \
  static tenon::DialectRegistration registration([](mlir::DialectRegistry &registry) { registry.insert<CLASS>(); });
#endif
