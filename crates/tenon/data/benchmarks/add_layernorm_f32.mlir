// A residual is added, then rows of 1024 are normalised, scaled and shifted.
module {
  func.func @main(%x: tensor<4096x1024xf32> {graph.name = "x"}, %r: tensor<4096x1024xf32> {graph.name = "r"}, %scale: tensor<1024xf32> {graph.name = "scale"}, %shift: tensor<1024xf32> {graph.name = "shift"}) -> (tensor<4096x1024xf32> {graph.name = "y"}) {
    %0 = graph.elementwise add(%x, %r) : (tensor<4096x1024xf32>, tensor<4096x1024xf32>) -> tensor<4096x1024xf32> loc("add")
    %1 = graph.normalize layer(%0, %scale, %shift) {axes = array<i64: 1>, epsilon = 1.000000e-05 : f64} : (tensor<4096x1024xf32>, tensor<1024xf32>, tensor<1024xf32>) -> tensor<4096x1024xf32> loc("layernorm")
    return %1 : tensor<4096x1024xf32>
  }
}
