# deltop: build, test, demo. `make help` lists the targets.

# V=1 shows the whole command lines.
CC       ?= cc
V        ?=
Q        := $(if $(V),,@)
SAY       = $(if $(V),,@echo "  $(1) $@")
BUILD    ?= build
CFLAGS   ?= -O2 -g
# Hot loops (kernels/cpu) are compiled for the machine at hand; MARCH= builds a portable program.
MARCH    ?= -march=native
SAN      ?=
# Said in the results of `deltop bench`.
COMMIT   := $(shell git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)
PREFIX   ?= /usr/local
PYTHON   ?= python3
# SentencePiece models are read where its library and a C++ compiler are there; SPM= leaves them out.
CXX      ?= c++
SPM      := $(shell pkg-config --exists sentencepiece 2>/dev/null && command -v $(CXX) >/dev/null && echo yes)

VERSION  := 0.1.0
# Stands on the manual page: the day of that version, not of the build.
DATE     := 2026-11-29
PKGS     := cairo libpng jansson libpcre2-8 libutf8proc ncursesw
PKG_C    := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
PKG_L    := $(shell pkg-config --libs $(PKGS) 2>/dev/null)
BASE     := -std=c11 -D_GNU_SOURCE -DDELTOP_VERSION='"$(VERSION)"' -DDELTOP_DATE='"$(DATE)"' \
            -Wall -Wextra -I. -fopenmp -MMD -MP \
            $(CFLAGS) $(PKG_C) $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer)
KERNEL   := -O3 $(MARCH) -fno-math-errno -fno-trapping-math -ffp-contract=fast
LIBS     := $(if $(SAN),-fsanitize=$(SAN)) $(PKG_L) $(if $(SPM),-lsentencepiece -lstdc++) -llapacke -lopenblas -ldl -fopenmp -lpthread -lm

# *.real.c holds code for one floating-point type and is compiled twice, as float and as double.
ALL_SRC  := $(wildcard core/*.c core/*/*.c analyses/*.c analyses/*/*.c cli/*.c cli/*/*.c bench/*.c)
LIB_SRC  := $(filter-out cli/main.c,$(ALL_SRC))
KER_SRC  := $(filter-out %.real.c,$(wildcard kernels/*.c kernels/cpu/*.c))
REAL_SRC := $(wildcard kernels/cpu/*.real.c)
OBJ      := $(LIB_SRC:%.c=$(BUILD)/%.o) $(KER_SRC:%.c=$(BUILD)/%.o) \
            $(REAL_SRC:%.real.c=$(BUILD)/%.f32.o) $(REAL_SRC:%.real.c=$(BUILD)/%.f64.o)
OBJ      += $(if $(SPM),$(BUILD)/core/sentencepiece.o)
LIB      := $(BUILD)/libdeltop.a
TESTS    := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c))
TEST_AUX := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(wildcard tests/test_*.c),$(wildcard tests/*.c)))

.PHONY: all bench cuda install uninstall demo test test-gpu test-trained check fault-coverage run-asan run-tsan help clean setup run-demo run-test tests format format-check
.SECONDARY:

# The GPU part too where nvcc and a GPU are, or with CUDA=1.
CUDA     ?= $(if $(and $(shell command -v nvcc 2>/dev/null),$(wildcard /dev/nvidia0)),1)

all: deltop $(if $(CUDA),deltop-cuda.so)

deltop: $(BUILD)/deltop
	@cp $< $@.tmp.new && mv -f $@.tmp.new $@ # a program that runs may not be written to
	@BUILD=$(BUILD) scripts/found.sh

$(BUILD)/deltop: $(BUILD)/cli/main.o $(LIB)
	$(call SAY,link)
	$(Q)$(CC) -rdynamic -o $@ $^ $(LIBS)

$(LIB): $(OBJ)
	@rm -f $@
	@ar rcs $@ $^

# Results of the QL kernel must not depend on how a batch is cut: no fused multiply-adds there.
$(BUILD)/kernels/cpu/svals_ql.o: KERNEL += -ffp-contract=off

# What a core reaches at most is measured with the instructions that kernels use.
$(BUILD)/bench/ceiling.o: BASE += $(KERNEL)

# Only this file is compiled anew when the commit changes.
$(BUILD)/bench/environment.o: BASE += -DDELTOP_COMMIT='"$(COMMIT)"' -DDELTOP_FLAGS='"$(CFLAGS) $(KERNEL)"'
$(BUILD)/bench/environment.o: $(BUILD)/commit
$(BUILD)/commit: FORCE
	@mkdir -p $(@D)
	@echo '$(COMMIT)' | cmp -s - $@ || echo '$(COMMIT)' >$@
.PHONY: FORCE
FORCE:

$(BUILD)/kernels/%.o: kernels/%.c
	@mkdir -p $(@D)
	$(call SAY,cc  )
	$(Q)$(CC) $(BASE) $(KERNEL) -c -o $@ $<
$(BUILD)/kernels/%.f32.o: kernels/%.real.c
	@mkdir -p $(@D)
	$(call SAY,cc  )
	$(Q)$(CC) $(BASE) $(KERNEL) -DREAL_F32 -c -o $@ $<
$(BUILD)/kernels/%.f64.o: kernels/%.real.c
	@mkdir -p $(@D)
	$(call SAY,cc  )
	$(Q)$(CC) $(BASE) $(KERNEL) -DREAL_F64 -c -o $@ $<
$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(call SAY,cc  )
	$(Q)$(CC) $(BASE) -c -o $@ $<
# The one C++ file; its user is compiled anew when the library comes later.
$(BUILD)/%.o: %.cpp
	@mkdir -p $(@D)
	$(call SAY,c++ )
	$(Q)$(CXX) $(filter-out -std=%,$(BASE)) -std=c++17 -c -o $@ $<
ifneq ($(SPM),)
$(BUILD)/core/tokenizer_spm.o $(BUILD)/cli/version.o: \
    BASE += -DDELTOP_SENTENCEPIECE='"$(shell pkg-config --modversion sentencepiece)"'
$(BUILD)/core/tokenizer_spm.o: $(BUILD)/core/sentencepiece.o
endif

# Its tokenizer is a fake one.
$(BUILD)/tests/test_document: WRAP := -Wl,--wrap=tokenizer_encode,--wrap=tokenizer_adds_special

# deltop-cuda.so resolves core's functions from the program that opens it.
$(BUILD)/tests/test_cuda_%: WRAP := -rdynamic

$(BUILD)/tests/test_%: $(BUILD)/tests/test_%.o $(TEST_AUX) $(LIB)
	$(call SAY,link)
	$(Q)$(CC) -o $@ $^ $(WRAP) -lcmocka $(LIBS)

tests: $(TESTS)

# CUDA -------------------------------------------------------------------------------------------
NVCC     ?= nvcc
ARCH     ?= 80 90a
GENCODE  := $(foreach a,$(ARCH),-gencode arch=compute_$(a),code=sm_$(a)) \
            -gencode arch=compute_80,code=compute_80
# Kernels for Hopper are empty without 90a (kernels/cuda/device.h).
GENCODE  += -DDELTOP_HOPPER=$(if $(filter 90a,$(ARCH)),1,0)
CU_OBJ   := $(patsubst %.cu,$(BUILD)/%.cu.o,$(wildcard kernels/cuda/*.cu))

$(BUILD)/%.cu.o: %.cu $(wildcard kernels/cuda/*.h kernels/*.h) core/backend.h core/rows.h core/steps.h core/mat.h
	@mkdir -p $(@D)
	$(call SAY,nvcc)
	$(Q)$(NVCC) -std=c++17 -O3 -lineinfo -I. $(GENCODE) -Xcompiler -fPIC,-Wall -c -o $@ $<

# What it needs of core is resolved from the program that opens it.
deltop-cuda.so: $(CU_OBJ)
	$(call SAY,link)
	$(Q)$(NVCC) -shared -cudart static -o $@ $^ -lcublas -lcublasLt

cuda: deltop-cuda.so ## the CUDA backend alone; ARCH="80 90a" lists compute capabilities

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)

setup: ## install the Debian packages that are missing
	@scripts/setup.sh

demo: ## set up, build, and run the main job on examples/
	@scripts/setup.sh
	@$(MAKE) --no-print-directory run-demo
run-demo: deltop
	@scripts/demo.sh

test: ## set up, build and run the test suite
	@scripts/setup.sh
	@$(MAKE) --no-print-directory run-test
run-test: deltop tests
	@scripts/test.sh $(BUILD) $(TESTS)

GPU_TESTS := $(filter $(BUILD)/tests/test_cuda_%,$(TESTS))

test-gpu: deltop-cuda.so $(GPU_TESTS) ## the CUDA backend against the CPU in float64; needs a GPU and nvcc
	@scripts/test.sh $(BUILD) $(GPU_TESTS)

test-trained: deltop $(BUILD)/tests/test_trained ## the trained models over all 32768 tokens of the reference (minutes)
	@DELTOP_TRAINED_LENGTH=32768 scripts/test.sh $(BUILD) $(BUILD)/tests/test_trained

bench: deltop ## time every kernel of the CPU (suite ci) into bench-out: about a minute
	@./deltop bench --suite ci --out bench-out

check: format-check fault-coverage ## formatting, tests, tests under address and undefined sanitizers, threads under theirs
	@$(MAKE) --no-print-directory run-test
	@$(MAKE) --no-print-directory run-asan
	@$(MAKE) --no-print-directory run-tsan

# Fails when a row of the fault list has no test that names it.
fault-coverage:
	@mkdir -p $(BUILD)
	@scripts/fault_coverage.sh >$(BUILD)/fault-coverage.txt || { cat $(BUILD)/fault-coverage.txt; exit 1; }

run-asan:
	@$(MAKE) --no-print-directory BUILD=build-asan SAN=address,undefined CFLAGS='-O1 -g' \
	    run-asan-tests
run-asan-tests: $(BUILD)/deltop tests
	@DELTOP=$(BUILD)/deltop DELTOP_TRAINED_LENGTH=$${DELTOP_TRAINED_LENGTH:-512} \
	    scripts/test.sh $(BUILD) $(TESTS)

# The dashboard's two threads under the thread sanitizer: half a minute, and a program of its own. OpenMP's
# and BLAS' own threads are not instrumented, so there is one of each.
run-tsan: $(BUILD)/tests/test_dash_changes
	@$(MAKE) --no-print-directory BUILD=build-tsan SAN=thread CFLAGS='-O1 -g' build-tsan/deltop
	@DELTOP=build-tsan/deltop OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \
	    scripts/test.sh build-tsan $(BUILD)/tests/test_dash_changes

format: ## clang-format -i on all sources
	@clang-format -i $(shell git ls-files '*.c' '*.h' '*.cu')
format-check:
	@clang-format --dry-run -Werror $(shell git ls-files '*.c' '*.h' '*.cu')

# Printed by the program from its tables of commands and options.
PAGES    := $(BUILD)/share/deltop.1 $(BUILD)/share/deltop.bash $(BUILD)/share/_deltop
$(BUILD)/share/deltop.1: FORM := --man
$(BUILD)/share/deltop.bash: FORM := --bash
$(BUILD)/share/_deltop: FORM := --zsh
$(PAGES): $(BUILD)/deltop
	@mkdir -p $(@D)
	$(Q)$< help $(FORM) >$@.tmp && mv $@.tmp $@

INTO      = $(DESTDIR)$(PREFIX)
MAN1      = $(INTO)/share/man/man1
BASHDIR   = $(INTO)/share/bash-completion/completions
ZSHDIR    = $(INTO)/share/zsh/site-functions
DOCDIR    = $(INTO)/share/doc/deltop

install: deltop $(PAGES) ## into $(PREFIX): program, GPU part when built, manual, completions, docs, examples
	install -D -m 755 deltop "$(INTO)/bin/deltop"
	@if [ -e deltop-cuda.so ]; then \
	    install -D -m 755 deltop-cuda.so "$(INTO)/lib/deltop/deltop-cuda.so"; \
	    else rm -f "$(INTO)/lib/deltop/deltop-cuda.so"; fi
	install -D -m 644 bench/plugin.h "$(INTO)/include/deltop/plugin.h"
	install -D -m 644 $(BUILD)/share/deltop.1 "$(MAN1)/deltop.1"
	install -D -m 644 $(BUILD)/share/deltop.bash "$(BASHDIR)/deltop"
	install -D -m 644 $(BUILD)/share/_deltop "$(ZSHDIR)/_deltop"
	@for f in README.md CHANGELOG.md LICENSE $$(find docs examples -type f ! -name '*.o' ! -name '*.so'); do \
	    install -D -m 644 "$$f" "$(DOCDIR)/$$f" || exit 1; done
	@echo "documents and examples in $(DOCDIR)"

uninstall: ## takes away what install put there
	rm -f "$(INTO)/bin/deltop" "$(MAN1)/deltop.1" "$(BASHDIR)/deltop" "$(ZSHDIR)/_deltop"
	rm -rf "$(INTO)/lib/deltop" "$(INTO)/include/deltop" "$(DOCDIR)"

help: ## this list
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /	/' | expand -t 16

clean: ## remove what was built, and the folders *-out
	rm -rf $(BUILD) build-asan build-tsan deltop *-out/
