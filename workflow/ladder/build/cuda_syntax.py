"""What of CUDA C++ is no C++, rewritten for g++ and the emulator: launches, `extern __shared__` arrays, names, casts.

`k<32><<<grid, block, bytes, stream>>>(a, b)` becomes `emulator_launch(EMULATOR_KERNEL(k<32>), grid, block, bytes,
stream)(a, b)`, and `extern __shared__ float s[];` a reference to the block's dynamic shared memory
(kernels/emulator/emulator_launch.h). All stays on its line.
"""

from __future__ import annotations

from ladder.config.cpp import tokens

_ATTRIBUTES = ("extern", "__shared__", "__align__", "alignas", "__attribute__", "static")
_STORAGE = ("extern", "__shared__", "static")
_STATEMENTS = ("return", "else", "do", "case", "if", "while", "for", "switch")
_BUILT_IN = ("gridDim", "blockDim", "blockIdx", "threadIdx")
_LAUNCHES = ("cudaLaunchKernel", "cudaLaunchCooperativeKernel")
_JOINS = ("::", ".", "->", "##")


def in_plain_cpp(text: str, file: str) -> str:
    """A source with its launches and `extern __shared__` arrays as g++ takes them; the text itself without any."""
    source = _Source(text)
    source.rename_variables()
    source.rewrite_arrays()
    source.rewrite_launches()
    source.bound_threads()
    source.copy_tensor_maps()
    source.remove_casts()
    return f'#line 1 "{file}"\n{"".join(source.texts)}' if source.changed else text


class _Source:
    """The tokens of a text; those that mean something by their places among all."""

    def __init__(self, text: str) -> None:
        kinds, texts = zip(*tokens(text), strict=True) if text else ((), ())
        self.kinds, self.texts, self.changed = list(kinds), list(texts), False
        self.places = [i for i, kind in enumerate(kinds) if kind not in ("space", "end", "nothing")]
        self.tokens = [texts[i].replace("\\\n", "") for i in self.places]

    def put(self, number: int, text: str) -> None:
        """Replace a token; of nothing a space is left, and of a token of several lines its lines."""
        self.texts[self.places[number]] = text or " "
        self.changed = True

    # Variables of the host that are named as the built-in ones of a kernel, which are macros here

    def rename_variables(self) -> None:
        """Rename each `dim3 gridDim(...)`, to where its scope ends, and the members of cudaLaunchConfig_t."""
        for number, token in enumerate(self.tokens):
            before = self.tokens[max(0, number - 1)]
            if token == "alignas" and before in ("__shared__", "static", "__constant__"):  # an attribute in their midst
                self.put(number, "__align__")
            if token in _BUILT_IN and before in (".", "->"):
                self.put(number, f"host_{token}")
            if token in _BUILT_IN and (before == "dim3" or (before == "," and self._declares(number))):
                for each in range(number, self._end_of_scope(number)):
                    if self.tokens[each] == token and self.tokens[each - 1] not in _JOINS:
                        self.put(each, f"host_{token}")

    def _declares(self, number: int) -> bool:
        """Whether a name behind a comma stands in a declaration of several variables."""
        begin = number
        while begin > 0 and self.tokens[begin - 1] not in (";", "{", "}"):
            begin -= 1
        declared = self.tokens[begin:number]
        return "dim3" in declared[:2] and declared.count("(") == declared.count(")")

    def _end_of_scope(self, number: int) -> int:
        """Behind the brace that ends the scope of a variable, or of the function that it is a parameter of."""
        depth, brackets = 0, 0
        for each in range(number, len(self.tokens)):
            token = self.tokens[each]
            brackets += (token == "(") - (token == ")")
            depth += (token == "{") - (token == "}")
            if depth < 0 or (depth == 0 and brackets < 0 and token in ("}", ";")):
                return each + 1
        return len(self.tokens)

    # Launches

    def rewrite_launches(self) -> None:
        """Rewrite each `callee<<<...>>>` that has both ends."""
        opened = [number for number in range(len(self.tokens)) if self._run(number, "<") >= 3]
        for number in opened:
            if number and self.tokens[number - 1] in ("operator", "<<"):
                continue
            end = self._end_of_configuration(number + 2)
            begin = self._callee(number)
            if end is None or begin == number:
                continue
            first = self.texts[self.places[begin]]
            self.put(begin, f"emulator_launch(EMULATOR_KERNEL({first}")
            self.put(number, "), ")
            self.put(number + 1, "")
            closing = "".join(self.tokens[end[0] : end[1]])[:-3]
            for each in range(*end):
                self.put(each, "")
            self.put(end[0], f"{closing})")

    def bound_threads(self) -> None:
        """Let each kernel with `__launch_bounds__` begin by asking for no more threads."""
        for number, token in enumerate(self.tokens[:-1]):
            if token != "__launch_bounds__" or self.tokens[number + 1] != "(":
                continue
            depth, end = 0, number + 1
            for end in range(number + 1, len(self.tokens)):
                depth += (self.tokens[end] == "(") - (self.tokens[end] == ")")
                if depth == 0:
                    break
            body = next((each for each in range(end, len(self.tokens)) if self.tokens[each] in ("{", ";")), None)
            if body is not None and self.tokens[body] == "{":
                bounds = " ".join(self.tokens[number + 2 : end])
                self.put(body, f"{{ emulator::require_threads({bounds});")

    def copy_tensor_maps(self) -> None:
        """Let each kernel's parameter that is a tensor map be a copy of it, but with `__grid_constant__`."""
        for number in (each for each, token in enumerate(self.tokens) if token == "__global__"):
            opened = number
            while opened < len(self.tokens) and self.tokens[opened] not in ("(", ";", "{"):
                attribute = self.tokens[opened + 1 : opened + 2] == ["("] and self.tokens[opened].startswith("__")
                opened = (self._closing(opened + 1) if attribute else opened) + 1
            if self.tokens[opened : opened + 1] != ["("]:
                continue
            begin = opened + 1
            for each in range(begin, self._closing(opened) + 1):
                if self.tokens[each] in (",", ")"):
                    parameter = [token for token in self.tokens[begin:each] if token not in ("const", "struct")]
                    if parameter[:1] == ["CUtensorMap"] and len(parameter) <= 2:
                        self.put(self.tokens.index("CUtensorMap", begin), "EmulatorCopiedTensorMap")
                    begin = each + 1

    def remove_casts(self) -> None:
        """Leave out that a kernel is cast to `void*` where it is launched: its type tells what its arguments are."""
        for number in range(len(self.tokens) - 2):
            if self.tokens[number] not in _LAUNCHES or self.tokens[number + 1] != "(":
                continue
            begin = number + 2
            closes = {"(": ")", "reinterpret_cast": ">", "static_cast": ">"}.get(self.tokens[begin])
            end = next((each for each in range(begin, len(self.tokens)) if self.tokens[each] == closes), begin)
            if {"void", "*"} <= {*self.tokens[begin:end]} <= {"(", "<", "void", "const", "*", self.tokens[begin]}:
                for each in range(begin, end + 1):
                    self.put(each, "")

    def _run(self, number: int, sign: str) -> int:
        """How many of a sign stand together from a token on."""
        length, place = 0, self.places[number]
        while place < len(self.texts) and set(self.texts[place]) == {sign}:
            length, place = length + len(self.texts[place]), place + 1
        return length

    def _end_of_configuration(self, number: int) -> tuple[int, int] | None:
        """The tokens, from and to, of the `>>>` before the arguments of a launch; None where there is none."""
        depth = 0
        while number < len(self.tokens) and depth >= 0 and self.tokens[number] not in (";", "#"):
            token = self.tokens[number]
            depth += (token in "([{") - (token in ")]}")
            end = number
            if depth == 0 and self._run(number, ">") >= 3:
                while set(self.tokens[end]) == {">"}:
                    end += 1
                if self.tokens[end] == "(":
                    return number, end
            number = max(end, number + 1)
        return None

    def _callee(self, end: int) -> int:
        """Where the expression begins that stands before a token: names, template arguments, groups in brackets."""
        begin = end
        while begin > 0:
            before = self.tokens[begin - 1]
            if set(before) == {">"}:
                begin = self._opening(begin - 1, "<")
            elif before in (")", "]"):
                begin = self._opening(begin - 1, {")": "(", "]": "["}[before])
                if not self._is_name(begin - 1) and self.tokens[begin - 1] not in (">", "]"):
                    return begin
            elif self._is_name(begin - 1):
                begin -= 1
                if self.tokens[begin - 1] == "template":
                    begin -= 1
                if begin == 0 or self.tokens[begin - 1] not in _JOINS:
                    return begin
                begin -= 1
            else:
                return begin
        return begin

    def _is_name(self, number: int) -> bool:
        return number >= 0 and self.kinds[self.places[number]] == "word" and self.tokens[number] not in _STATEMENTS

    def _opening(self, number: int, opening: str) -> int:
        """The bracket that the one at a token closes; of `<` each of a run counts."""
        closing = self.tokens[number][-1]
        depth = 0
        while number >= 0:
            token = self.tokens[number]
            if set(token) == {closing}:
                depth += len(token)
            elif token == opening:
                depth -= 1
                if depth <= 0:
                    return number
            elif opening == "<" and token in (")", "]"):
                number = self._opening(number, {")": "(", "]": "["}[token])
            number -= 1
        return 0

    def _closing(self, number: int) -> int:
        """The parenthesis that closes the one at a token."""
        depth = 0
        for each in range(number, len(self.tokens)):
            depth += (self.tokens[each] == "(") - (self.tokens[each] == ")")
            if depth == 0:
                return each
        return number

    # Dynamic shared memory

    def rewrite_arrays(self) -> None:
        """Rewrite each `extern __shared__` array: a reference in a function, each use outside of one."""
        begins = [number for number, token in enumerate(self.tokens) if token == "extern"]
        scopes = self._scopes()
        for begin in begins:
            begin -= self.tokens[max(0, begin - 1)] == "__shared__"
            end = next((number for number in range(begin, len(self.tokens)) if self.tokens[number] in (";", "{")), 0)
            declared = self.tokens[begin : end + 1]
            if "__shared__" in declared and "[" in declared and declared[-1] == ";":
                self._rewrite_array(begin, end, in_function=scopes[begin])

    def _rewrite_array(self, begin: int, end: int, in_function: bool) -> None:
        """Rewrite one array; what aligns it, maybe a macro, aligns the member of a class, for g++ to tell how much."""
        kept, number, member = [], begin, ""
        while number < end:
            token = self.tokens[number]
            if token not in _ATTRIBUTES:
                kept.append(number)
                member += f" {token}" + "1" * (token == "[" and "[" not in member and self.tokens[number + 1] == "]")
            else:
                last = self._closing(number + 1) if self.tokens[number + 1] == "(" else number
                if token not in _STORAGE:
                    member += " " + " ".join(self.tokens[number : last + 1])
                for each in range(number, last + 1):
                    self.put(each, "")
                number = last
            number += 1
        bracket = next(number for number in kept if self.tokens[number] == "[")
        name = kept[kept.index(bracket) - 1]
        array = " ".join(self.tokens[number] for number in kept if number != name)
        aligned = f"EmulatorAligned_{self.tokens[name]}_{begin}"
        memory = f"emulator_extern_shared<{array}, {aligned}>()"
        declared = f"struct {aligned} {{{member}; }};"
        if in_function:
            self.put(begin, declared)
            self.put(name, f"(&{self.tokens[name]})")
            self.put(end, f" = {memory};")
            return
        for number in (*kept, end):
            self.put(number, "")
        self.put(begin, declared)
        for number in range(end, len(self.tokens)):
            if self.tokens[number] == self.tokens[name] and self.tokens[number - 1] not in _JOINS:
                self.put(number, f"({memory})")

    def _scopes(self) -> list[bool]:
        """Of each token whether it stands in a function or a class, and not in a namespace alone."""
        inside: list[bool] = []  # a brace each: not of a namespace
        head, scopes = [], []
        for token in self.tokens:
            scopes.append(any(inside))
            if token == "{":
                inside.append("namespace" not in head and head[-2:-1] != ["extern"])
            elif token == "}" and inside:
                inside.pop()
            head = [] if token in ("{", "}", ";") else [*head[-8:], token]
        return scopes
