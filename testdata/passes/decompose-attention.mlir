// Alike heads without a mask; groups with a mask and a cache of keys; extents that are known at launch.
func.func @plain(%q: tensor<1x4x8x16xf32>, %k: tensor<1x4x8x16xf32>, %v: tensor<1x4x8x16xf32>) -> tensor<1x4x8x16xf32> {
  %0 = graph.attention(%q, %k, %v) {scale = 2.500000e-01 : f64} : (tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>) -> tensor<1x4x8x16xf32> loc("plain")
  return %0 : tensor<1x4x8x16xf32>
}
func.func @grouped(%q: tensor<2x6x3x16xf16>, %k: tensor<2x2x5x16xf16>, %v: tensor<2x2x5x8xf16>, %mask: tensor<6x3x5xi1>) -> tensor<2x6x3x8xf16> {
  %0 = graph.attention(%q, %k, %v, %mask) {scale = 2.500000e-01 : f64, softcap = 3.000000e+01 : f64, causal = "end"} : (tensor<2x6x3x16xf16>, tensor<2x2x5x16xf16>, tensor<2x2x5x8xf16>, tensor<6x3x5xi1>) -> tensor<2x6x3x8xf16> loc("grouped")
  return %0 : tensor<2x6x3x8xf16>
}
func.func @extents(%q: tensor<1x4x?x16xf32, {dims = [1, 4, "new", 16]}>, %k: tensor<1x4x?x16xf32, {dims = [1, 4, "all", 16]}>, %v: tensor<1x4x?x16xf32, {dims = [1, 4, "all", 16]}>) -> tensor<1x4x?x16xf32, {dims = [1, 4, "new", 16]}> {
  %0 = graph.attention(%q, %k, %v) {scale = 2.500000e-01 : f64, causal = "end"} : (tensor<1x4x?x16xf32, {dims = [1, 4, "new", 16]}>, tensor<1x4x?x16xf32, {dims = [1, 4, "all", 16]}>, tensor<1x4x?x16xf32, {dims = [1, 4, "all", 16]}>) -> tensor<1x4x?x16xf32, {dims = [1, 4, "new", 16]}> loc("extents")
  return %0 : tensor<1x4x?x16xf32, {dims = [1, 4, "new", 16]}>
}
