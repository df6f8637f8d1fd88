// Fusion groups and operators bound to a library.
module {
  func.func @main(%arg0: tensor<16x16xf16>, %arg1: tensor<16x16xf16>) -> tensor<16x16xf16> {
    %0 = graph.kernel matmul "k0_matmul"(%arg0, %arg1) : (tensor<16x16xf16>, tensor<16x16xf16>) -> tensor<16x16xf16> attributes {cost = 1.500000e+00 : f64, numeric_class = "reassociates", rules = ["fold_scale"]} {
    ^bb0(%arg2: tensor<16x16xf16>, %arg3: tensor<16x16xf16>):
      %2 = graph.contract "mk,kn->mn"(%arg2, %arg3) accumulate f32 : (tensor<16x16xf16>, tensor<16x16xf16>) -> tensor<16x16xf16>
      %3 = graph.elementwise tanh(%2) : (tensor<16x16xf16>) -> tensor<16x16xf16>
      graph.yield %3 : tensor<16x16xf16>
    }
    %1 = graph.custom "vendor.rotate"(%0) {parameters = {turns = 2 : i64}} : (tensor<16x16xf16>) -> tensor<16x16xf16>
    return %1 : tensor<16x16xf16>
  }
}
