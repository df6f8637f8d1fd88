// Branches and loops, with captured values and scan outputs.
module {
  func.func @branch(%arg0: tensor<i1>, %arg1: tensor<4xf32>) -> tensor<4xf32> {
    %0 = flow.if %arg0 : tensor<i1> -> (tensor<4xf32>) attributes {depth = 0 : i64, placement = "kernel"} {
      %1 = graph.elementwise exp(%arg1) : (tensor<4xf32>) -> tensor<4xf32>
      flow.yield %1 : tensor<4xf32>
    } else {
      flow.yield %arg1 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  func.func @shapes(%arg0: tensor<i1>, %arg1: tensor<4xf32>, %arg2: tensor<7xf32>) -> tensor<7xf32, {dims = ["taken"]}> {
    %0 = flow.if %arg0 : tensor<i1> -> (tensor<7xf32, {dims = ["taken"]}>) {
      flow.yield %arg1 : tensor<4xf32>
    } else {
      flow.yield %arg2 : tensor<7xf32>
    }
    return %0 : tensor<7xf32, {dims = ["taken"]}>
  }
  func.func @loop(%arg0: tensor<i64>, %arg1: tensor<i1>, %arg2: tensor<f32>, %arg3: tensor<f32>) -> (tensor<f32>, tensor<8xf32, {dims = ["n"]}>) {
    %0:2 = flow.loop count(%arg0 : tensor<i64>) while(%arg1 : tensor<i1>) carry(%arg2 : tensor<f32>) -> (tensor<f32>, tensor<8xf32, {dims = ["n"]}>) attributes {capacity = 8 : i64, placement = "graph", unroll = 2 : i64} {
    ^bb0(%arg4: tensor<i64>, %arg5: tensor<f32>):
      %1 = graph.elementwise add(%arg5, %arg3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      %2 = graph.elementwise less(%1, %arg2) : (tensor<f32>, tensor<f32>) -> tensor<i1>
      flow.yield %2, %1, %arg5 : tensor<i1>, tensor<f32>, tensor<f32>
    }
    return %0#0, %0#1 : tensor<f32>, tensor<8xf32, {dims = ["n"]}>
  }
  func.func @counted(%arg0: tensor<f32>) -> tensor<f32> {
    %0 = graph.constant dense<3> : tensor<i64> -> tensor<i64>
    %1 = flow.loop count(%0 : tensor<i64>) carry(%arg0 : tensor<f32>) -> (tensor<f32>) {
    ^bb0(%arg1: tensor<i64>, %arg2: tensor<f32>):
      %2 = graph.elementwise sqrt(%arg2) : (tensor<f32>) -> tensor<f32>
      flow.yield %2 : tensor<f32>
    }
    return %1 : tensor<f32>
  }
  func.func @scan(%arg0: tensor<2xf32>, %arg1: tensor<3x2xf32>) -> (tensor<2xf32>, tensor<2x3xf32>) {
    %0:2 = flow.scan state(%arg0 : tensor<2xf32>) over(%arg1 : tensor<3x2xf32>) -> (tensor<2xf32>, tensor<2x3xf32>) attributes {input_axes = array<i64: 0>, input_directions = array<i64: 1>, output_axes = array<i64: 1>, output_directions = array<i64: 0>} {
    ^bb0(%arg2: tensor<2xf32>, %arg3: tensor<2xf32>):
      %1 = graph.elementwise add(%arg2, %arg3) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      flow.yield %1, %1 : tensor<2xf32>, tensor<2xf32>
    }
    return %0#0, %0#1 : tensor<2xf32>, tensor<2x3xf32>
  }
}
