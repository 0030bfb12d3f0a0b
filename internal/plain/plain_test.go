package plain_test

import (
	"encoding/json"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/plain"
)

// Whatever cannot be seen is escaped, and nothing else. JSON stays what it was, and what a page sends back becomes that again.
func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		`請求 "Zoë" \ cafe` + "\u0301":   `請求 "Zoë" \ cafe` + "\u0301",
		"a\u202eb \"c\"":               `a\u202eb "c"`,
		"\u200b\u2066\ufeff\U000e0061": `\u200b\u2066\ufeff\U000e0061`,
		"\x1b[2J\n\xff":                `\x1b[2J\n\xff`,
		"  ":                           `"  "`,
		"":                             "",
		" a ":                          " a ",
	} {
		check.Equal(t, plain.Text(text), want, "%q")
	}
	const id = "a\u202eb\\ \U000e0061請"
	encoded := check.Got(json.Marshal(id))(t)
	check.Equal(t, string(plain.JSON(encoded)), `"a\u202eb\\ \udb40\udc61請"`, "%s")
	shown := plain.PageJSON(encoded)
	var got string
	check.OK(t, json.Unmarshal(shown, &got))
	check.Equal(t, got, `a\u202eb\ \udb40\udc61請`, "%s")
	check.OK(t, json.Unmarshal(plain.FromPage(check.Got(json.Marshal(got))(t)), &got))
	check.Equal(t, got, id, "%q")
	blanks := check.Got(json.Marshal([]any{"  ", map[string]string{"a": " "}, `:" "`, " a "}))(t)
	shown = plain.PageJSON(blanks)
	check.Equal(t, string(shown), `["\"  \"",{"a":"\" \""},":\" \""," a "]`, "%s")
	check.Equal(t, string(plain.FromPage(shown)), string(blanks), "%s")
}
