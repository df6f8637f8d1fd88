#layout = #hw.layout<reg = [[0, 1], [0, 2], [1, 0], [2, 0]], lane = [[0, 4], [0, 8], [0, 16], [4, 0], [8, 0]], warp = [[16, 0]]>
#layout1 = #hw.layout<reg = [[0, 1], [0, 2], [16, 0]], lane = [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]], warp = [[8, 0]]>
#layout2 = #hw.layout<reg = [[0, 1], [0, 2], [8, 0]], lane = [[0, 4], [0, 8], [0, 16], [1, 0], [2, 0]], warp = [[4, 0]]>
#layout3 = #hw.layout<reg = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0]], lane = [[0, 0], [0, 0], [0, 0], [4, 0], [8, 0]], warp = [[16, 0]]>
#layout4 = #hw.layout<reg = [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0], [8, 0]], lane = [[0, 4], [0, 8], [0, 16], [0, 0], [0, 0]], warp = [[0, 0]]>
#loc1 = loc("model.onnx":1:1)
#shared_layout = #hw.shared_layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0]]>
#shared_layout1 = #hw.shared_layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [1, 0], [2, 0], [4, 0], [8, 0]]>
module {
  hw.kernel @matmul_fma target "sm_80" warps 2 grid [1] {
  ^bb0(%arg0: !llvm.ptr<1> loc("model.onnx":1:1), %arg1: !llvm.ptr<1> loc("model.onnx":1:1), %arg2: !llvm.ptr<1> loc("model.onnx":1:1)):
    %cst = arith.constant 0.000000e+00 : f32 loc(#loc1)
    %0 = hw.splat %cst : f32 -> <[32, 32] x f32, #layout> loc(#loc1)
    %c0_i32 = arith.constant 0 : i32 loc(#loc1)
    %c64_i32 = arith.constant 64 : i32 loc(#loc1)
    %c16_i32 = arith.constant 16 : i32 loc(#loc1)
    %c0_i32_0 = arith.constant 0 : i32 loc(#loc1)
    %1 = hw.alloc : <1 x[32, 16] x f32, #shared_layout> loc(#loc1)
    %2 = hw.alloc : <1 x[16, 32] x f32, #shared_layout1> loc(#loc1)
    %3 = scf.for %arg3 = %c0_i32 to %c64_i32 step %c16_i32 iter_args(%arg4 = %0) -> (!hw.tile<[32, 32] x f32, #layout>)  : i32 {
      %7 = hw.iota 0 : <[32, 16] x i32, #layout1> loc(#loc1)
      %8 = hw.iota 1 : <[32, 16] x i32, #layout1> loc(#loc1)
      %9 = hw.map(%7, %8) : (!hw.tile<[32, 16] x i32, #layout1>, !hw.tile<[32, 16] x i32, #layout1>) -> !hw.tile<[32, 16] x i32, #layout1> {
      ^bb0(%arg5: i32 loc("model.onnx":1:1), %arg6: i32 loc("model.onnx":1:1)):
        %c64_i32_1 = arith.constant 64 : i32 loc(#loc1)
        %18 = arith.muli %arg5, %c64_i32_1 : i32 loc(#loc1)
        %19 = arith.addi %18, %arg6 : i32 loc(#loc1)
        %20 = arith.addi %19, %arg3 : i32 loc(#loc1)
        hw.yield %20 : i32 loc(#loc1)
      } loc(#loc1)
      %10 = hw.load %arg0[%9] {contiguity = 4 : i64} : !llvm.ptr<1>, <[32, 16] x i32, #layout1> -> <[32, 16] x f32, #layout1> loc(#loc1)
      %11 = hw.iota 0 : <[16, 32] x i32, #layout2> loc(#loc1)
      %12 = hw.iota 1 : <[16, 32] x i32, #layout2> loc(#loc1)
      %13 = hw.map(%11, %12) : (!hw.tile<[16, 32] x i32, #layout2>, !hw.tile<[16, 32] x i32, #layout2>) -> !hw.tile<[16, 32] x i32, #layout2> {
      ^bb0(%arg5: i32 loc("model.onnx":1:1), %arg6: i32 loc("model.onnx":1:1)):
        %18 = arith.addi %arg5, %arg3 : i32 loc(#loc1)
        %c32_i32 = arith.constant 32 : i32 loc(#loc1)
        %19 = arith.muli %18, %c32_i32 : i32 loc(#loc1)
        %20 = arith.addi %19, %arg6 : i32 loc(#loc1)
        hw.yield %20 : i32 loc(#loc1)
      } loc(#loc1)
      %14 = hw.load %arg1[%13] {contiguity = 4 : i64} : !llvm.ptr<1>, <[16, 32] x i32, #layout2> -> <[16, 32] x f32, #layout2> loc(#loc1)
      hw.barrier loc(#loc1)
      hw.local_store %10, %1[%c0_i32_0] : <[32, 16] x f32, #layout1>, <1 x[32, 16] x f32, #shared_layout> loc(#loc1)
      hw.local_store %14, %2[%c0_i32_0] : <[16, 32] x f32, #layout2>, <1 x[16, 32] x f32, #shared_layout1> loc(#loc1)
      hw.barrier loc(#loc1)
      %15 = hw.local_load %1[%c0_i32_0] : <1 x[32, 16] x f32, #shared_layout> -> <[32, 16] x f32, #layout3> loc(#loc1)
      %16 = hw.local_load %2[%c0_i32_0] : <1 x[16, 32] x f32, #shared_layout1> -> <[16, 32] x f32, #layout4> loc(#loc1)
      %17 = hw.mma "fma" %15, %16, %arg4 : <[32, 16] x f32, #layout3>, <[16, 32] x f32, #layout4>, <[32, 32] x f32, #layout> -> <[32, 32] x f32, #layout> loc(#loc1)
      scf.yield %17 : !hw.tile<[32, 32] x f32, #layout> loc(#loc1)
    } loc(#loc1)
    %4 = hw.iota 0 : <[32, 32] x i32, #layout> loc(#loc1)
    %5 = hw.iota 1 : <[32, 32] x i32, #layout> loc(#loc1)
    %6 = hw.map(%4, %5) : (!hw.tile<[32, 32] x i32, #layout>, !hw.tile<[32, 32] x i32, #layout>) -> !hw.tile<[32, 32] x i32, #layout> {
    ^bb0(%arg3: i32 loc("model.onnx":1:1), %arg4: i32 loc("model.onnx":1:1)):
      %c0_i32_1 = arith.constant 0 : i32 loc(#loc1)
      %c32_i32 = arith.constant 32 : i32 loc(#loc1)
      %7 = arith.muli %c0_i32_1, %c32_i32 : i32 loc(#loc1)
      %8 = arith.addi %7, %arg3 : i32 loc(#loc1)
      %c32_i32_2 = arith.constant 32 : i32 loc(#loc1)
      %9 = arith.muli %8, %c32_i32_2 : i32 loc(#loc1)
      %10 = arith.addi %9, %arg4 : i32 loc(#loc1)
      hw.yield %10 : i32 loc(#loc1)
    } loc(#loc1)
    hw.store %3, %arg2[%6] : <[32, 32] x f32, #layout>, !llvm.ptr<1>, <[32, 32] x i32, #layout> loc(#loc1)
    hw.return loc(#loc1)
  } loc(#loc1)
} loc(#loc)
#loc = loc(unknown)
