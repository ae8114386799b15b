# The CUDA architectures to compile for where none are named: those of the GPUs of this machine, else 90 (its PTX runs on
# newer ones too).
function(onstream_architectures result)
  execute_process(
    COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
    RESULT_VARIABLE status
    OUTPUT_VARIABLE answer
    ERROR_QUIET)
  set(found "")
  if(status EQUAL 0)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]+" found "${answer}")
    list(REMOVE_DUPLICATES found)
    list(TRANSFORM found REPLACE "\\." "")
  endif()
  if(NOT found)
    set(found 90)
  endif()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()
