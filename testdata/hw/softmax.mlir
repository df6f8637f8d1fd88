#layout = #hw.layout<reg = [[0, 1]], lane = [[0, 2], [0, 4], [0, 8], [0, 16], [1, 0]], warp = [[2, 0]]>
#layout1 = #hw.layout<reg = [], lane = [[0], [0], [0], [0], [1]], warp = [[2]]>
#layout2 = #hw.layout<reg = [], lane = [[0, 0], [0, 0], [0, 0], [0, 0], [1, 0]], warp = [[2, 0]]>
#loc1 = loc("model.onnx":1:1)
module {
  hw.kernel @softmax target "sm_80" warps 2 grid [1] {
  ^bb0(%arg0: !llvm.ptr<1> loc("model.onnx":1:1), %arg1: !llvm.ptr<1> loc("model.onnx":1:1)):
    %0 = hw.iota 0 : <[4, 32] x i32, #layout> loc(#loc1)
    %1 = hw.iota 1 : <[4, 32] x i32, #layout> loc(#loc1)
    %2 = hw.map(%0, %1) : (!hw.tile<[4, 32] x i32, #layout>, !hw.tile<[4, 32] x i32, #layout>) -> !hw.tile<[4, 32] x i32, #layout> {
    ^bb0(%arg2: i32 loc("model.onnx":1:1), %arg3: i32 loc("model.onnx":1:1)):
      %c0_i32 = arith.constant 0 : i32 loc(#loc1)
      %c4_i32 = arith.constant 4 : i32 loc(#loc1)
      %15 = arith.muli %c0_i32, %c4_i32 : i32 loc(#loc1)
      %16 = arith.addi %15, %arg2 : i32 loc(#loc1)
      %c32_i32 = arith.constant 32 : i32 loc(#loc1)
      %17 = arith.muli %16, %c32_i32 : i32 loc(#loc1)
      %18 = arith.addi %17, %arg3 : i32 loc(#loc1)
      hw.yield %18 : i32 loc(#loc1)
    } loc(#loc1)
    %3 = hw.load %arg0[%2] : !llvm.ptr<1>, <[4, 32] x i32, #layout> -> <[4, 32] x f32, #layout> loc(#loc1)
    %4 = hw.reduce 1(%3) : (!hw.tile<[4, 32] x f32, #layout>) -> !hw.tile<[4] x f32, #layout1> {
    ^bb0(%arg2: f32 loc("model.onnx":1:1), %arg3: f32 loc("model.onnx":1:1)):
      %15 = arith.maximumf %arg2, %arg3 : f32 loc(#loc1)
      hw.yield %15 : f32 loc(#loc1)
    } loc(#loc1)
    %5 = hw.expand_dims %4 at 1 : <[4] x f32, #layout1> -> <[4, 1] x f32, #layout2> loc(#loc1)
    %6 = hw.broadcast %5 : <[4, 1] x f32, #layout2> -> <[4, 32] x f32, #layout> loc(#loc1)
    %7 = hw.map(%3, %6) : (!hw.tile<[4, 32] x f32, #layout>, !hw.tile<[4, 32] x f32, #layout>) -> !hw.tile<[4, 32] x f32, #layout> {
    ^bb0(%arg2: f32 loc("model.onnx":1:1), %arg3: f32 loc("model.onnx":1:1)):
      %15 = arith.subf %arg2, %arg3 : f32 loc(#loc1)
      %16 = math.exp %15 : f32 loc(#loc1)
      hw.yield %16 : f32 loc(#loc1)
    } loc(#loc1)
    %8 = hw.reduce 1(%7) : (!hw.tile<[4, 32] x f32, #layout>) -> !hw.tile<[4] x f32, #layout1> {
    ^bb0(%arg2: f32 loc("model.onnx":1:1), %arg3: f32 loc("model.onnx":1:1)):
      %15 = arith.addf %arg2, %arg3 : f32 loc(#loc1)
      hw.yield %15 : f32 loc(#loc1)
    } loc(#loc1)
    %9 = hw.expand_dims %8 at 1 : <[4] x f32, #layout1> -> <[4, 1] x f32, #layout2> loc(#loc1)
    %10 = hw.broadcast %9 : <[4, 1] x f32, #layout2> -> <[4, 32] x f32, #layout> loc(#loc1)
    %11 = hw.map(%7, %10) : (!hw.tile<[4, 32] x f32, #layout>, !hw.tile<[4, 32] x f32, #layout>) -> !hw.tile<[4, 32] x f32, #layout> {
    ^bb0(%arg2: f32 loc("model.onnx":1:1), %arg3: f32 loc("model.onnx":1:1)):
      %15 = arith.divf %arg2, %arg3 : f32 loc(#loc1)
      hw.yield %15 : f32 loc(#loc1)
    } loc(#loc1)
    %12 = hw.iota 0 : <[4, 32] x i32, #layout> loc(#loc1)
    %13 = hw.iota 1 : <[4, 32] x i32, #layout> loc(#loc1)
    %14 = hw.map(%12, %13) : (!hw.tile<[4, 32] x i32, #layout>, !hw.tile<[4, 32] x i32, #layout>) -> !hw.tile<[4, 32] x i32, #layout> {
    ^bb0(%arg2: i32 loc("model.onnx":1:1), %arg3: i32 loc("model.onnx":1:1)):
      %c0_i32 = arith.constant 0 : i32 loc(#loc1)
      %c4_i32 = arith.constant 4 : i32 loc(#loc1)
      %15 = arith.muli %c0_i32, %c4_i32 : i32 loc(#loc1)
      %16 = arith.addi %15, %arg2 : i32 loc(#loc1)
      %c32_i32 = arith.constant 32 : i32 loc(#loc1)
      %17 = arith.muli %16, %c32_i32 : i32 loc(#loc1)
      %18 = arith.addi %17, %arg3 : i32 loc(#loc1)
      hw.yield %18 : i32 loc(#loc1)
    } loc(#loc1)
    hw.store %11, %arg1[%14] : <[4, 32] x f32, #layout>, !llvm.ptr<1>, <[4, 32] x i32, #layout> loc(#loc1)
    hw.return loc(#loc1)
  } loc(#loc1)
} loc(#loc)
#loc = loc(unknown)
