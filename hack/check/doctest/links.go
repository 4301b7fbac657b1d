// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	// target matches the target of an inline link or image, of a reference, of an HTML attribute, and a URL in the text.
	target = regexp.MustCompile(`\]\(([^)\s]*)[^)]*\)|^\[[^\]]+\]: *(\S+)|(?:href|src)="([^"]*)"|(https?://[^\s()<>"]*[^\s()<>".,;:])`)
	code   = regexp.MustCompile("`[^`]*`")
)

// checkLinks returns the links that are broken: to a file or a heading that does not exist, or of an impossible form. It makes no
// requests.
func checkLinks(root string, documents []*document) (problems []string) {
	byPath := map[string]*document{}
	for _, d := range documents {
		byPath[d.path] = d
	}
	for _, d := range documents {
		for i, line := range d.prose {
			for _, match := range target.FindAllStringSubmatch(code.ReplaceAllString(line, ""), -1) {
				link := match[1] + match[2] + match[3] + match[4]
				if err := checkLink(root, byPath, d, link); err != nil {
					problems = append(problems, fmt.Sprintf("%s:%d: %q: %v", d.path, i+1, link, err))
				}
			}
		}
	}
	return problems
}

func checkLink(root string, documents map[string]*document, from *document, link string) error {
	u, err := url.Parse(link)
	if err != nil {
		return err
	}
	if u.Scheme != "" {
		if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return fmt.Errorf("not a web address")
		}
		return nil
	}
	to := from.path
	if u.Path != "" {
		to = path.Join(path.Dir(from.path), u.Path)
		if strings.HasPrefix(to, "../") || path.IsAbs(u.Path) {
			return fmt.Errorf("outside of the repository")
		}
		if _, err := os.Stat(filepath.Join(root, to)); err != nil {
			return fmt.Errorf("no such file")
		}
	}
	if u.Fragment == "" {
		if u.Path == "" {
			return fmt.Errorf("empty link")
		}
		return nil
	}
	if document := documents[to]; document == nil || !document.anchors[u.Fragment] {
		return fmt.Errorf("no such heading")
	}
	return nil
}
