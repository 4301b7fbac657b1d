// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// watchTimeout is how long a watch takes that does not say it.
	watchTimeout = 30 * time.Minute
	// bookmarkInterval is how often a watch that has nothing to say says up to where that is so.
	bookmarkInterval = time.Minute
)

// watch returns what begins to stream events.
func (c *Connection) watch(ctx context.Context, r *Request) (begin func() io.ReadCloser, err error) {
	c.lock.Lock()
	isRefused := c.refused[r.Resource].After(time.Now()) || c.refused[AllResources].After(time.Now())
	_, isStale := c.stale[r.Resource]
	c.lock.Unlock()
	if isRefused {
		return nil, ErrConnection
	}
	initial, next, selects, err := c.server.startWatch(r, !isStale)
	if apierrors.IsResourceExpired(err) { // The API server says it in an event.
		raw := encode(statusOf(err))
		status, _ := decode(raw) // It is an object.
		initial, err = []Change{{Type: watch.Error, New: status, raw: raw}}, nil
	}
	if err != nil {
		return nil, err
	}
	timeout := watchTimeout
	if seconds, err := strconv.Atoi(r.Query.Get("timeoutSeconds")); err == nil {
		timeout = time.Duration(seconds) * time.Second
	}
	ctx, end := context.WithTimeout(ctx, timeout)
	c.lock.Lock()
	c.watches[r] = end
	c.lock.Unlock()
	return func() io.ReadCloser {
		reader, writer := io.Pipe()
		go func() {
			c.send(ctx, writer, r, selects, initial, next)
			end()
			c.lock.Lock()
			delete(c.watches, r)
			c.lock.Unlock()
			c.network.Ended(r)
			writer.Close()
		}()
		return stream{reader, end}
	}, nil
}

// stream is what a client reads of a watch. Its end is that of the watch.
type stream struct {
	*io.PipeReader
	end func()
}

// Close implements io.Closer.
func (s stream) Close() error {
	s.end()
	return s.PipeReader.Close()
}

// send sends the events of a watch until it ends.
func (c *Connection) send(
	ctx context.Context, writer io.Writer, r *Request, selects func(*Object) bool, initial []Change, next int64,
) {
	if len(initial) > 0 && c.wait(ctx, c.network.Lag(r, watch.Added, nil), r.Resource) != nil {
		return
	}
	for _, event := range initial {
		if !c.deliver(writer, r, event) || event.Type == watch.Error {
			return
		}
	}
	for {
		events, last, changed, err := c.server.changesAfter(r, selects, next)
		if err != nil {
			return
		}
		for _, event := range events {
			if c.wait(ctx, c.network.Lag(r, event.Type, event.New), r.Resource) != nil || !c.deliver(writer, r, event) {
				return
			}
		}
		next = last
		if !c.await(ctx, writer, r, changed) {
			return
		}
	}
}

// await waits for more events, and sends a bookmark if there are none for a while. It reports whether the watch goes on.
func (c *Connection) await(ctx context.Context, writer io.Writer, r *Request, changed chan struct{}) bool {
	timer := time.NewTimer(bookmarkInterval)
	defer timer.Stop()
	select {
	case <-changed:
		return true
	case <-ctx.Done():
		return false
	case <-timer.C:
		last := c.server.seenUntil(changed)
		if last == 0 || r.Query.Get("allowWatchBookmarks") != "true" {
			return true
		}
		return c.wait(ctx, 0, r.Resource) == nil && c.deliver(writer, r, c.server.bookmark(r, last, false))
	}
}

// seenUntil returns up to which resourceVersion a watch has seen all changes of its resource, or 0 if there is one that it has not seen.
func (s *Server) seenUntil(changed chan struct{}) int64 {
	s.lock.Lock()
	defer s.lock.Unlock()
	select {
	case <-changed:
		return 0
	default:
		return s.resourceVersion
	}
}

// deliver writes an event, and reports whether the client still reads.
func (c *Connection) deliver(writer io.Writer, r *Request, event Change) bool {
	c.network.Event(r, event.Type, event.New)
	_, err := fmt.Fprintf(writer, "{\"type\":%q,\"object\":%s}\n", event.Type, encodeEvent(r, event))
	return err == nil
}

// startWatch returns what a watch begins with, and the resourceVersion after which it goes on.
func (s *Server) startWatch(r *Request, hasWatchList bool) (initial []Change, next int64, selects func(*Object) bool, err error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if next, selects, err = s.watched(r, hasWatchList); err != nil {
		s.failed(r, nil, err)
		return nil, 0, nil, err
	}
	sends := r.Query.Get("sendInitialEvents") == "true"
	if !sends && next != 0 {
		return nil, next, selects, nil
	}
	next = s.resourceVersion
	for _, o := range sorted(s.at(r.Resource, next), "") {
		if selects(o) {
			initial = append(initial, Change{Type: watch.Added, New: o, raw: encode(o.Object)})
		}
	}
	if sends {
		initial = append(initial, s.bookmark(r, next, true))
	}
	return initial, next, selects, nil
}

// watched returns from which resourceVersion on a watch asks for what. It returns an error if the API server rejects the watch.
func (s *Server) watched(r *Request, hasWatchList bool) (version int64, selects func(*Object) bool, err error) {
	if err := s.rejection(r); err != nil {
		return 0, nil, err
	}
	resource := s.Resource(r.Resource)
	if err := resource.check(r); err != nil {
		return 0, nil, err
	}
	options, err := r.listOptions(hasWatchList)
	if err != nil {
		return 0, nil, err
	}
	if selects, err = r.selector(resource, options); err != nil {
		return 0, nil, err
	}
	if version, err = parseVersion(options.ResourceVersion); err != nil {
		return 0, nil, StatusError(http.StatusInternalServerError, err.Error()) // This is how it is.
	}
	switch isInitial := r.Query.Get("sendInitialEvents") == "true" || version == 0; {
	case version > s.resourceVersion:
		return 0, nil, s.tooLarge(version)
	case !isInitial && version < s.compacted:
		return 0, nil, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", version, s.compacted+1))
	}
	return version, selects, nil
}

// bookmark returns an event that says up to where a watch has sent all events. It may end the initial ones.
func (s *Server) bookmark(r *Request, version int64, endsInitial bool) Change {
	o := newObject(s.Resource(r.Resource).Kind)
	o.SetResourceVersion(strconv.FormatInt(version, 10))
	if endsInitial {
		o.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return Change{Type: watch.Bookmark, New: o, raw: encode(o.Object)}
}

// changesAfter returns what a watch sees of the changes after a resourceVersion, the one that it has seen then, and a channel that is closed
// when there are more.
func (s *Server) changesAfter(
	r *Request, selects func(*Object) bool, version int64,
) (seen []Change, last int64, changed chan struct{}, err error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	begin := s.resourceVersion - int64(len(s.history)) // The history has every later resourceVersion once.
	if version < begin {
		return nil, 0, nil, apierrors.NewResourceExpired("too old resource version")
	}
	for _, c := range s.history[version-begin:] {
		if c.Request.Resource != r.Resource {
			continue
		}
		wasSelected, isSelected := c.Old != nil && selects(c.Old), c.Type != watch.Deleted && selects(c.New)
		switch {
		case wasSelected && !isSelected:
			seen = append(seen, c.unselected())
		case isSelected && !wasSelected:
			c.Type = watch.Added
			seen = append(seen, c)
		case isSelected:
			seen = append(seen, c)
		}
	}
	if s.changed[r.Resource] == nil {
		s.changed[r.Resource] = make(chan struct{})
	}
	return seen, s.resourceVersion, s.changed[r.Resource], nil
}

// unselected returns a change as a watch sees it that does not select the object any more: as the deletion of what it was.
func (c Change) unselected() Change {
	if c.Type == watch.Modified {
		c.New = c.Old.DeepCopy()
		c.New.SetResourceVersion(strconv.FormatInt(c.ResourceVersion, 10))
		c.raw = encode(c.New.Object)
	}
	c.Type = watch.Deleted
	return c
}
