// Softmax of rows of 1024.
module {
  func.func @main(%x: tensor<4096x1024xf32> {graph.name = "x"}) -> (tensor<4096x1024xf32> {graph.name = "y"}) {
    %0 = graph.softmax %x {axis = 1} : tensor<4096x1024xf32> -> tensor<4096x1024xf32> loc("softmax")
    return %0 : tensor<4096x1024xf32>
  }
}
